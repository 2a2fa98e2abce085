//go:build realtime

package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// memoryLimit is the memory limit of the exporter's container in the manifests, in bytes.
const memoryLimit = 128 << 20

// memoryGroup is a cgroup with the memory limit of the exporter's container.
type memoryGroup struct {
	t   testing.TB
	dir string
	v2  bool
}

// If the group cannot be created, the test is skipped.
func newMemoryGroup(t testing.TB) *memoryGroup {
	t.Helper()
	const root = "/sys/fs/cgroup"
	name := fmt.Sprintf("gpuledger-%d-%d", os.Getpid(), time.Now().UnixNano())
	m := &memoryGroup{t: t, dir: filepath.Join(root, "memory", name)}
	limit := "memory.limit_in_bytes"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		m.dir, m.v2, limit = filepath.Join(root, name), true, "memory.max"
	}
	if err := os.Mkdir(m.dir, 0o755); err != nil {
		t.Skipf("cannot create a cgroup: %v", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(m.dir); err != nil {
			t.Errorf("remove the cgroup: %v", err)
		}
	})
	if err := m.write(limit, strconv.Itoa(memoryLimit)); err != nil {
		t.Skipf("cannot set the memory limit of a cgroup: %v", err)
	}
	if !m.v2 {
		// The kernel counts socket memory only if this limit is set.
		if err := m.write("memory.kmem.tcp.limit_in_bytes", "1G"); err != nil {
			t.Logf("the kernel does not count socket memory: %v", err)
		}
	}
	m.enclose()
	return m
}

// Until the end of the test, enclose replaces the exporter's path with a script that enters the group and then executes
// the exporter.
func (m *memoryGroup) enclose() {
	m.t.Helper()
	script := filepath.Join(m.t.TempDir(), "gpuledger")
	text := fmt.Sprintf("#!/bin/sh\necho $$ >%s/cgroup.procs && exec %s \"$@\"\n", m.dir, binary)
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		m.t.Fatal(err)
	}
	outside := binary
	binary = script
	m.t.Cleanup(func() { binary = outside })
}

func (m *memoryGroup) killed() int {
	m.t.Helper()
	name := "memory.oom_control"
	if m.v2 {
		name = "memory.events"
	}
	text, err := os.ReadFile(filepath.Join(m.dir, name))
	if err != nil {
		m.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return int(m.number(n))
		}
	}
	m.t.Fatalf("%s has no count of killed processes", name)
	return 0
}

// peak includes socket memory.
func (m *memoryGroup) peak() int64 {
	m.t.Helper()
	files := []string{"memory.max_usage_in_bytes", "memory.kmem.tcp.max_usage_in_bytes"}
	if m.v2 {
		files = []string{"memory.peak"}
	}
	var sum int64
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(m.dir, name))
		if err != nil {
			m.t.Logf("not counted: %v", err)
			continue
		}
		sum += m.number(string(text))
	}
	return sum
}

func (m *memoryGroup) number(text string) int64 {
	m.t.Helper()
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}

func (m *memoryGroup) write(name, value string) error {
	return os.WriteFile(filepath.Join(m.dir, name), []byte(value), 0o600)
}
