package cli_test

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/gpuledger/gpuledger/internal/cli"
)

// TestGroupLimit checks that GroupLimit returns the lowest limit of a cgroup and its parents, for both cgroup versions.
func TestGroupLimit(t *testing.T) {
	tests := []struct {
		name, groups string
		files        map[string]string
		want         int64
	}{
		{"version 2", "0::/a/b\n", map[string]string{"a/b/memory.max": "max\n", "a/memory.max": "536870912\n"}, 512 << 20},
		{"a container", "0::/\n", map[string]string{"memory.max": "1048576\n"}, 1 << 20},
		{"version 1", "12:cpu,cpuacct:/x\n8:memory:/pod/c\n0::/\n", map[string]string{"memory/pod/memory.limit_in_bytes": "4096\n", "memory/memory.limit_in_bytes": "9223372036854771712\n"}, 4096},
		{"a container with cgroup v1", "8:memory:/docker/0123\n", map[string]string{"memory/memory.limit_in_bytes": "8192\n"}, 8192},
		{"none", "0::/a\n", map[string]string{"a/memory.max": "max\n"}, 0},
		{"no cgroups", "", nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				file := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("proc/7/cgroup", tt.groups)
			if err := os.Symlink("7", filepath.Join(dir, "proc", "self")); err != nil {
				t.Fatal(err)
			}
			for name, text := range tt.files {
				write("mount/"+name, text)
			}
			if got := cli.GroupLimit(filepath.Join(dir, "proc"), filepath.Join(dir, "mount")); got != tt.want {
				t.Errorf("limit is %d, want %d", got, tt.want)
			}
		})
	}
}

// TestMemoryLimit checks that the result includes Go's memory limit.
func TestMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(1 << 20)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	if got := cli.MemoryLimit(); got != 1<<20 {
		t.Errorf("limit is %d, want 1 MiB", got)
	}
}
