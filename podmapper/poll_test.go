package podmapper_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/podmapper"
)

// TestPodEndsBetweenPolls checks that a pod counts as not live immediately after its end, before the next poll.
func TestPodEndsBetweenPolls(t *testing.T) {
	tests := []struct {
		name string
		end  func(*node)
	}{
		{"gone", func(n *node) { n.exit(10) }},
		{"exiting", func(n *node) { n.write("proc/10/stat", statLine(10, 5, "python3", 4)) }},
		{"PID reused", func(n *node) { n.start(10, 6, "python3", cgroupPath(trainer, id)) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.link(trainer, id)
			n.link(notebook, otherID)
			n.serve(holds(holder(trainer, "", gpuA), holder(notebook, "", gpuB)))
			n.start(10, 5, "python3", cgroupPath(trainer, id))
			n.start(20, 5, "python3", cgroupPath(notebook, otherID))
			n.poll()
			before := n.Allocations()
			n.wantHeld(exclusive(gpuA, trainer, true), exclusive(gpuB, notebook, true))
			tt.end(n)
			n.wantHeld(exclusive(gpuA, trainer, false), exclusive(gpuB, notebook, true))
			if !before.List[0].Live {
				t.Error("the end of a pod changed a list that was returned before")
			}
		})
	}
}

// TestOneProcessIsEnough checks that a pod counts as alive while at least one of its known processes runs.
func TestOneProcessIsEnough(t *testing.T) {
	n := newNode(t)
	n.link(trainer, id)
	n.serve(holds(holder(trainer, "", gpuA)))
	for i := range uint32(20) {
		n.start(10+i, uint64(100-i), "python3", cgroupPath(trainer, id))
	}
	n.poll()
	for i := range uint32(20) {
		if i != 12 { // process 22 is one of the eight oldest processes
			n.exit(10 + i)
		}
	}
	n.wantHeld(exclusive(gpuA, trainer, true))
	n.exit(22)
	n.start(30, 200, "python3", cgroupPath(trainer, id)) // this process started later than the others
	n.wantHeld(exclusive(gpuA, trainer, false))
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, true))
}

// TestPodsAPIOverridesProcesses checks that a pod without processes stays live if the Pods API reports it as alive. The
// kubelet will restart the crashed container.
func TestPodsAPIOverridesProcesses(t *testing.T) {
	n := newNode(t, func(c *podmapper.Config) { c.Poll = time.Hour })
	api := n.servePods(apiPod(trainer, "Running", nil))
	k := n.serve(holds(holder(trainer, "", gpuA)))
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.run()
	n.waitPolled()
	k.wait(t)
	n.wantHeld(exclusive(gpuA, trainer, true))
	api.now(apiPod(trainer, "Failed", nil))
	n.exit(10)
	n.wantHeld(exclusive(gpuA, trainer, true))
	k.wait(t)
	n.poll() // the call waits until a poll in progress has ended
	n.wantHeld(exclusive(gpuA, trainer, false))
}

func TestRunPollsForAnEndedPod(t *testing.T) {
	n := newNode(t, func(c *podmapper.Config) { c.Poll = time.Hour })
	k := n.serve(holds(holder(trainer, "", gpuA)))
	n.link(trainer, id)
	n.start(10, 5, "sh", cgroupPath(trainer, id))
	n.run()
	n.waitPolled()
	k.wait(t)
	n.exit(10)
	n.start(11, 6, "python3", cgroupPath(trainer, id))
	n.wantHeld(exclusive(gpuA, trainer, false))
	k.wait(t)
	n.poll() // the call waits until a poll in progress has ended
	n.wantHeld(exclusive(gpuA, trainer, true))
}

// TestUnchangedProcessIsNotReadAgain checks that the mapper does not read the cgroup of an unchanged process again. It
// replaces the cgroup file with an unreadable file.
func TestUnchangedProcessIsNotReadAgain(t *testing.T) {
	n := newNode(t)
	n.link(trainer, id)
	n.serve(holds(holder(trainer, "", gpuA)))
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.poll()
	first := n.process(10)
	n.pass(time.Minute)
	n.poll()
	n.remove("proc/10/cgroup")
	check(t, os.Mkdir(n.path("proc/10/cgroup"), 0o755))
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, true))
	if diff := cmp.Diff(first, n.process(10)); diff != "" {
		t.Errorf("second answer (-first +second):\n%s", diff)
	}
	n.write("proc/10/stat", statLine(10, 6, "python3", 0))
	n.pollFails(fmt.Sprintf("%s: is a directory", n.path("proc/10/cgroup")))
}

// TestProcessThatMovesIntoItsContainer checks the first process of a container. The runtime starts this process outside
// the container, and then moves it into the container.
func TestProcessThatMovesIntoItsContainer(t *testing.T) {
	n := newNode(t)
	n.serve(holds(holder(trainer, "", gpuA)))
	n.link(trainer, id)
	n.start(10, 5, "runc:[2:INIT]", "/system.slice/containerd.service")
	for range 3 {
		n.poll()
		n.wantHeld(exclusive(gpuA, trainer, false))
	}
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.pass(2 * time.Second)
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, true))

	n.pass(time.Minute)
	n.poll()
	n.start(10, 5, "python3", "/system.slice/never.read")
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, true))
}

func TestAnExitingProcessKeepsNoPodAlive(t *testing.T) {
	n := newNode(t)
	n.serve(holds(holder(trainer, "", gpuA)))
	n.link(trainer, id)
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.write("proc/10/stat", statLine(10, 5, "python3", 4))
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, false))
}

// TestKernelThreadsAreInNoPod checks that kernel threads cause no error. In a private cgroup namespace, the cgroup of a
// kernel thread has no name.
func TestKernelThreadsAreInNoPod(t *testing.T) {
	n := newNode(t)
	n.serve(holds())
	for pid := range uint32(3) {
		n.start(2+pid, 1, "kthread", "/../../../..")
		n.write(fmt.Sprintf("proc/%d/stat", 2+pid), statLine(2+pid, 1, "kthread", 0x208040))
	}
	n.poll()
	n.wantStage(stage.Processes, true)
}
