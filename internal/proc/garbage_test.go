//go:build !race

package proc

import (
	"os"
	"testing"
)

// TestStatLeavesLittle: thousands of processes are read in one poll, so the file's content
// stays on the stack. What is left is three forms of its name, and the process's.
func TestStatLeavesLittle(t *testing.T) {
	tree := Tree{"/proc"}
	pid := uint32(os.Getpid())
	got := testing.AllocsPerRun(100, func() {
		if _, err := tree.Stat(pid); err != nil {
			t.Fatal(err)
		}
	})
	if got > 4 {
		t.Errorf("stat allocates %v times, want 4 at most", got)
	}
}
