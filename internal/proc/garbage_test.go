//go:build !race

package proc

import (
	"os"
	"testing"
)

// A poll reads thousands of processes, so the content of each file must stay on the stack. Stat may allocate only the
// path of the file, a copy of the path for the system call, and the name of the process.
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
