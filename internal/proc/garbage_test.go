//go:build !race

package proc

import (
	"os"
	"testing"
)

// TestStatLeavesLittle limits the number of allocations by Stat. Thousands of processes are
// read in one poll, so the content of the file must stay on the stack. Only the file name, in
// two forms, and the process name are allocated.
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
