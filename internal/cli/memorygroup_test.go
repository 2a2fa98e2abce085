package cli_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/cli"
)

// If this environment variable is set, the test binary prints Go's memory limit and runs no tests.
const limitedEnv = "GPULEDGER_TEST_PRINT_LIMIT"

func TestMain(m *testing.M) {
	if os.Getenv(limitedEnv) != "" {
		cli.LimitMemory()
		fmt.Print(debug.SetMemoryLimit(-1) >> 20)
		return
	}
	os.Exit(m.Run())
}

// noGroup is the exit status of tools/limit-memory if it cannot create a cgroup.
const noGroup = 75

// TestLimitMemory runs a program in a real cgroup with the memory limits of our containers. For example, Go's limit
// must be 100 MiB of 128 MiB.
func TestLimitMemory(t *testing.T) {
	for _, tt := range []struct{ group, env, want string }{
		{"128M", "", "100"}, {"512M", "", "448"}, {"4096M", "", "3584"}, {"32M", "", "16"}, {"512M", "77MiB", "77"},
	} {
		t.Run(tt.group+tt.env, func(t *testing.T) {
			var reason strings.Builder
			cmd := exec.CommandContext(t.Context(), "../../tools/limit-memory", "--required", tt.group, os.Args[0])
			cmd.Env = append(os.Environ(), limitedEnv+"=yes", "GOMEMLIMIT="+tt.env)
			cmd.Stderr = &reason
			out, err := cmd.Output()
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == noGroup {
				t.Skip(reason.String())
			}
			if err != nil || string(out) != tt.want {
				t.Errorf("limit is %s MiB, want %s; error %v: %s", out, tt.want, err, &reason)
			}
		})
	}
}
