package amd_test

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/source/amd"
)

// A tree is a directory with the driver's files, and the configuration of the source that reads them.
type tree struct {
	t    testing.TB
	root string
	log  strings.Builder // log of the source
	// generation counts the changes of amdkfd's topology.
	generation int
	clients    bool
	health     bool
	// tick is the usual interval between two readings, or 0.
	tick time.Duration
}

func newTree(t testing.TB) *tree {
	d := &tree{t: t, root: t.TempDir()}
	d.load()
	return d
}

// load creates the folders that exist only while the driver is loaded.
func (d *tree) load() {
	d.mkdir("sys/bus/pci/drivers/amdgpu")
	d.mkdir("sys/class/kfd/kfd/proc")
	d.mkdir("sys/class/drm")
	d.write("sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0")
	d.write("proc/sys/kernel/osrelease", "6.12.0")
	d.renumbered()
}

func (d *tree) unload() {
	d.remove("sys/class")
	d.remove("sys/bus/pci/drivers")
}

func (d *tree) renumbered() {
	d.generation++
	d.write("sys/class/kfd/kfd/topology/generation_id", fmt.Sprint(d.generation))
}

func (d *tree) path(name string) string { return filepath.Join(d.root, name) }

func (d *tree) mkdir(name string) {
	d.t.Helper()
	if err := os.MkdirAll(d.path(name), 0o755); err != nil {
		d.t.Fatal(err)
	}
}

// write replaces the file. As in sysfs, a reader sees the new content only when it opens the file again.
func (d *tree) write(name, content string) {
	d.t.Helper()
	d.mkdir(filepath.Dir(name))
	next := filepath.Join(filepath.Dir(d.path(name)), ".next")
	if err := os.WriteFile(next, []byte(content), 0o644); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(next, d.path(name)); err != nil {
		d.t.Fatal(err)
	}
}

// optional removes the file if the content is empty.
func (d *tree) optional(name, content string) {
	d.t.Helper()
	if content == "" {
		d.remove(name)
		return
	}
	d.write(name, content)
}

func (d *tree) remove(name string) {
	d.t.Helper()
	if err := os.RemoveAll(d.path(name)); err != nil {
		d.t.Fatal(err)
	}
}

func (d *tree) link(name, target string) {
	d.t.Helper()
	d.mkdir(filepath.Dir(name))
	d.remove(name)
	relative, err := filepath.Rel(filepath.Dir(d.path(name)), d.path(target))
	if err == nil {
		err = os.Symlink(relative, d.path(name))
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// hang makes all reads of a file hang until the file is released or the test ends.
func (d *tree) hang(name string) {
	d.t.Helper()
	d.remove(name)
	if err := syscall.Mkfifo(d.path(name), 0o644); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { d.release(name, "") })
}

func (d *tree) release(name, content string) {
	info, err := os.Lstat(d.path(name))
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return
	}
	// Readers still hold the pipe open when a file with the content replaces the pipe.
	old := d.path(name) + ".old"
	if err := os.Rename(d.path(name), old); err != nil {
		d.t.Error(err)
	}
	if content != "" {
		d.write(name, content)
	}
	pipe, err := os.OpenFile(old, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err == nil { // there is a reader
		_ = pipe.Close()
	}
}

func folder(address string) string { return "sys/bus/pci/devices/" + address }

func (d *tree) addCard(number int, address, uniqueID string) {
	f := folder(address)
	d.write(f+"/vendor", "0x1002")
	d.write(f+"/class", "0x120000")
	d.write(f+"/device", "0xffff")
	d.write(f+"/unique_id", uniqueID)
	d.link(f+"/driver", "sys/bus/pci/drivers/amdgpu")
	d.link(fmt.Sprintf("sys/class/drm/card%d/device", number), f)
}

// The highest bits of the location contain the number of a partition.
func (d *tree) addNode(n int, gpuID string, location uint32, minor, xcc int) {
	f := fmt.Sprintf("sys/class/kfd/kfd/topology/nodes/%d", n)
	d.write(f+"/gpu_id", gpuID)
	d.write(f+"/properties", fmt.Sprintf("simd_count 304\nlocation_id %d\ndomain 0\ndrm_render_minor %d\nnum_xcc %d\n", location, minor, xcc))
}

func (d *tree) open(now gpu.Clock) *amd.Source {
	s := amd.New(amd.Config{
		Sys: d.path("sys"), Proc: d.path("proc"), Clients: d.clients, Health: d.health, Tick: d.tick, CallTimeout: gputest.HangTimeout, Now: now,
		Log: slog.New(slog.NewTextHandler(&d.log, nil)),
	})
	d.t.Cleanup(func() {
		if err := s.Close(time.Minute); err != nil {
			d.t.Error(err)
		}
	})
	return s
}

type blob []byte

func newBlob(format, content uint8, size int) blob {
	b := make(blob, size)
	for i := range b {
		b[i] = 0xff
	}
	binary.NativeEndian.PutUint16(b, uint16(size))
	b[2], b[3] = format, content
	return b
}

func (b blob) u16(at int, n uint16) blob {
	binary.NativeEndian.PutUint16(b[at:], n)
	return b
}

func (b blob) u32(at int, n uint32) blob {
	binary.NativeEndian.PutUint32(b[at:], n)
	return b
}

func (b blob) u64(at int, n uint64) blob {
	binary.NativeEndian.PutUint64(b[at:], n)
	return b
}
