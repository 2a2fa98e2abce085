package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// procTree is a directory that replaces /proc for the exporter. It contains copies of the loads' files, with a separate
// cgroup for each load. Therefore each load is a separate owner, without root rights or a container engine.
type procTree struct{ dir string }

const cgroups = "/gpuledger-hardware"

// Process 1 represents the exporter.
func (t procTree) write() error {
	if err := os.MkdirAll(filepath.Join(t.dir, "sys/kernel/random"), 0o755); err != nil {
		return err
	}
	for _, name := range []string{"stat", "sys/kernel/random/boot_id"} {
		if err := copyFile(filepath.Join("/proc", name), filepath.Join(t.dir, name)); err != nil {
			return err
		}
	}
	if err := t.add(1, "/"); err != nil {
		return err
	}
	ns := filepath.Join(t.dir, "1", "ns")
	if err := os.Mkdir(ns, 0o755); err != nil {
		return err
	}
	// The driver reports PIDs of this process's namespace. The link contains the kernel's number of the initial PID
	// namespace, so the exporter uses these PIDs unchanged.
	if err := os.Symlink("pid:[4026531836]", filepath.Join(ns, "pid")); err != nil {
		return err
	}
	return os.Symlink("1", filepath.Join(t.dir, "self"))
}

func (t procTree) add(pid int, cgroup string) error {
	id := strconv.Itoa(pid)
	dir := filepath.Join(t.dir, "new-"+id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"stat", "comm", "status", "cmdline"} {
		if err := copyFile(filepath.Join("/proc", id, name), filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("copy process %d: %w", pid, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup"), []byte("0::"+cgroup+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(dir, filepath.Join(t.dir, id))
}

func (t procTree) remove(pid int) error { return os.RemoveAll(filepath.Join(t.dir, strconv.Itoa(pid))) }

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}
