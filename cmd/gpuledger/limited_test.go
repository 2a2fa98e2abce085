//go:build realtime

package main_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// limited is a memory cgroup with the limit of the exporter's container.
type limited struct {
	t   testing.TB
	dir string
	// peak and failed are the files with the most memory that was used, and with how often
	// a process was killed.
	peak, failed string
}

const (
	containerLimit = 128 << 20
	// softLimit is GOMEMLIMIT as the manifests set it.
	softLimit = "GOMEMLIMIT=100MiB"
)

// newLimited makes the cgroup, of version 1 or 2. It skips the test where that is not
// allowed.
func newLimited(t testing.TB) *limited {
	t.Helper()
	const root = "/sys/fs/cgroup"
	name := fmt.Sprintf("gpuledger-test-%d", os.Getpid())
	l := &limited{t: t, dir: filepath.Join(root, "memory", name)}
	limits := []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}
	l.peak, l.failed = "memory.max_usage_in_bytes", "memory.oom_control"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		l.dir, limits = filepath.Join(root, name), []string{"memory.max"}
		l.peak, l.failed = "memory.peak", "memory.events"
	}
	if err := os.Mkdir(l.dir, 0o755); err != nil {
		t.Skipf("no memory cgroup can be made: %v", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(l.dir); err != nil {
			t.Errorf("remove the cgroup: %v", err)
		}
	})
	for i, file := range limits {
		err := os.WriteFile(filepath.Join(l.dir, file), []byte(strconv.Itoa(containerLimit)), 0o644)
		if err != nil && i == 0 {
			t.Skipf("no memory limit can be set: %v", err)
		}
	}
	return l
}

// holds has every exporter that the test starts run in the cgroup.
func (l *limited) holds() {
	l.t.Helper()
	script := filepath.Join(l.t.TempDir(), "gpuledger")
	text := fmt.Sprintf("#!/bin/sh\necho $$ >%s/cgroup.procs && exec %s \"$@\"\n", l.dir, binary)
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		l.t.Fatal(err)
	}
	unlimited := binary
	binary = script
	l.t.Cleanup(func() { binary = unlimited })
}

// killed returns how many processes were killed for their memory.
func (l *limited) killed() int {
	text, err := os.ReadFile(filepath.Join(l.dir, l.failed))
	if err != nil {
		l.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			killed, err := strconv.Atoi(strings.TrimSpace(n))
			if err != nil {
				l.t.Fatal(err)
			}
			return killed
		}
	}
	return 0
}

// most returns the most memory that was used, in MiB.
func (l *limited) most() int {
	text, err := os.ReadFile(filepath.Join(l.dir, l.peak))
	if errors.Is(err, os.ErrNotExist) { // before Linux 5.19
		return -1
	}
	n, err2 := strconv.Atoi(strings.TrimSpace(string(text)))
	if err := errors.Join(err, err2); err != nil {
		l.t.Fatal(err)
	}
	return n >> 20
}
