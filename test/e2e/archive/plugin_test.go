//go:build e2e

package archive_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlugin runs the program as a plugin of kubectl, and completes its commands and flags.
func TestPlugin(t *testing.T) {
	t.Parallel()
	kubectl := filepath.Join(programs(t, "GPULEDGER_E2E_KUBECTL"), "kubectl")
	dir := t.TempDir()
	for _, name := range []string{"kubectl-gpuledger", "kubectl_complete-gpuledger"} {
		path, err := filepath.Abs(binary())
		check(t, err)
		check(t, os.Symlink(path, filepath.Join(dir, name)))
	}
	for words, want := range map[string]string{"wh": "where\n:4\n", "doc": "doctor\n:4\n", "where --store.ur": "--store.url=\n:2\n"} {
		c := exec.CommandContext(t.Context(), kubectl, append([]string{"__complete", "gpuledger"}, strings.Fields(words)...)...)
		c.Env = append(os.Environ(), "PATH="+dir)
		if out, err := c.Output(); err != nil || string(out) != want {
			t.Errorf("kubectl gpuledger %s: %v, got %q, want %q", words, err, out, want)
		}
	}
}
