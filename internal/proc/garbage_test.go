//go:build !race

package proc

import (
	"os"
	"testing"
)

// TestStatLeavesLittle limits the allocations of Stat. A poll reads thousands of processes, so the content of each file
// must stay on the stack. Only two forms of the file name and the process name may be allocated.
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
