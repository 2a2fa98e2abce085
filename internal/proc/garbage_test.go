//go:build !race

package proc

import (
	"os"
	"testing"
)

// TestStatLeavesLittle limits the allocations of Stat. Thousands of processes are read in one
// poll, so the content of the file stays on the stack. Only the forms of the file name and the
// process name are allocated.
func TestStatLeavesLittle(t *testing.T) {
	tree := Tree{"/proc"}
	pid := uint32(os.Getpid())
	got := testing.AllocsPerRun(100, func() {
		if _, err := tree.Stat(pid); err != nil {
			t.Fatal(err)
		}
	})
	if got > 4 {
		t.Errorf("Stat allocates %v times, want 4 at most", got)
	}
}
