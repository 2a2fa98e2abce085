//go:build realtime

package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/cli"
)

// limitedEnv makes the test's program print Go's memory limit in place of running tests.
const limitedEnv = "GPULEDGER_TEST_PRINT_LIMIT"

func TestMain(m *testing.M) {
	if os.Getenv(limitedEnv) != "" {
		cli.LimitMemory()
		fmt.Print(debug.SetMemoryLimit(-1) >> 20)
		return
	}
	os.Exit(m.Run())
}

// TestLimitMemory runs a program in a cgroup with a memory limit, and checks Go's limit: 100 MiB of 128
// and 448 MiB of 512, which are the limits of the containers.
func TestLimitMemory(t *testing.T) {
	for _, tt := range []struct{ group, env, want string }{
		{"128M", "", "100"}, {"512M", "", "448"}, {"4096M", "", "3584"}, {"32M", "", "16"}, {"512M", "77MiB", "77"},
	} {
		t.Run(tt.group+tt.env, func(t *testing.T) {
			script := fmt.Sprintf("echo $$ >%s/cgroup.procs && exec %s", limitedGroup(t, tt.group), os.Args[0])
			cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
			cmd.Env = append(os.Environ(), limitedEnv+"=yes", "GOMEMLIMIT="+tt.env)
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != tt.want {
				t.Errorf("limit is %s MiB, want %s; error %v", out, tt.want, err)
			}
		})
	}
}

// limitedGroup creates a cgroup with a memory limit until the end of the test, or skips the test.
func limitedGroup(t *testing.T, limit string) string {
	t.Helper()
	parent, file := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		parent, file = "/sys/fs/cgroup", "memory.max"
	}
	dir, err := os.MkdirTemp(parent, "gpuledger-"+strings.ToLower(t.Name()[len("TestLimitMemory/"):]))
	if err != nil {
		t.Skipf("no cgroup of its own: %v", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Errorf("remove the cgroup: %v", err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, file), []byte(limit), 0o600); err != nil {
		t.Skipf("no memory limit of its own: %v", err)
	}
	return dir
}
