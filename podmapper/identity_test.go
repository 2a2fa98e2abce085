package podmapper_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// nameless is the trainer's container as long as its pod's UID is not known.
var nameless = gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml-team", Name: "train-0", Part: "trainer"}

// A pod that is created again under its old name is another pod.
func TestRecreatedPod(t *testing.T) {
	n := newNode(t)
	n.serve(holds(holder(trainer, "", gpuA)))
	oldLink := n.link(trainer, id)
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, true))

	n.exit(10)
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, false))

	n.remove(oldLink)
	n.poll()
	nobody := exclusive(gpuA, nameless, false)
	n.wantHeld(nobody) // the new pod has no links yet

	n.link(reborn, otherID)
	n.poll()
	n.wantHeld(exclusive(gpuA, reborn, false))
	n.start(11, 9, "python3", cgroupPath(reborn, otherID))
	n.poll()
	n.wantHeld(exclusive(gpuA, reborn, true))

	n.start(10, 5, "python3", cgroupPath(trainer, id)) // both live: nobody can tell
	n.poll()
	n.wantHeld(nobody)
	third := trainer
	third.UID = strings.Repeat("3", 32)
	n.link(third, strings.Repeat("3", 64)) // which makes a third no likelier
	n.poll()
	n.wantHeld(nobody)
}

// answer has the kubelet give another answer from now on.
func (n *node) answer(pods ...*podresources.PodResources) {
	n.t.Helper()
	n.serve(holds(pods...))
}

// A pod that was deleted by force leaves a process that hangs in the driver, and
// its log link. The pod that gets its name gets other devices, which says that
// they are not the old pod's.
func TestOtherDevicesAreAnotherPods(t *testing.T) {
	n := newNode(t)
	n.link(trainer, id)
	n.start(10, 5, "python3", cgroupPath(trainer, id)) // to the end
	n.answer(holder(trainer, "", gpuA))
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, true))

	n.answer(holder(trainer, "", gpuB))
	for range 2 {
		n.poll()
		n.wantHeld(exclusive(gpuB, nameless, false)) // the new pod has no links yet
	}
	link := n.link(reborn, otherID)
	n.poll()
	n.wantHeld(exclusive(gpuB, reborn, false))
	n.start(11, 9, "python3", cgroupPath(reborn, otherID))
	n.poll()
	n.wantHeld(exclusive(gpuB, reborn, true))

	n.exit(11) // a third pod gets what the first one had
	n.remove(link)
	n.answer(holder(trainer, "", gpuA))
	n.poll()
	n.wantHeld(exclusive(gpuA, nameless, false))
}

func TestOtherDevices(t *testing.T) {
	const shared = "nvidia.com/gpu.shared"
	tests := []struct {
		name          string
		before, after []*podresources.PodResources
		others        bool
	}{
		{"another GPU", pods(holder(trainer, "", gpuA)), pods(holder(trainer, "", gpuB)), true},
		{"one GPU more", pods(holder(trainer, "", gpuA)), pods(holder(trainer, "", gpuA, gpuB)), true},
		{"one GPU less", pods(holder(trainer, "", gpuA, gpuB)), pods(holder(trainer, "", gpuB)), true},
		{"another replica", pods(holder(trainer, shared, gpuA+"::0")), pods(holder(trainer, shared, gpuA+"::1")), true},
		{"another resource", pods(holder(trainer, "", gpuA)), pods(holder(trainer, shared, gpuA)), true},
		{"another container", pods(holder(trainer, "", gpuA)), pods(holder(sidecar, "", gpuA)), true},

		{"another order", pods(together(holder(trainer, "", gpuA), holder(trainer, "", gpuB))), pods(holder(trainer, "", gpuB, gpuA)), false},
		{"twice the same", pods(holder(trainer, "", gpuA)), pods(holder(trainer, "", gpuA, gpuA)), false},
		{"another pod's", pods(holder(trainer, "", gpuA)), pods(holder(trainer, "", gpuA), holder(notebook, "", gpuB)), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.link(trainer, id)
			n.answer(tt.before...)
			n.poll()
			n.answer() // as a kubelet that just started
			n.poll()
			n.answer(tt.after...)
			n.poll()
			for _, a := range n.Allocations().List {
				want := uid
				if tt.others || a.Owner.Name != trainer.Name {
					want = ""
				}
				if a.Owner.UID != want {
					t.Errorf("GPU %s is held by a pod with UID %q, want %q", a.Device.UUID, a.Owner.UID, want)
				}
			}
		})
	}
}

func pods(p ...*podresources.PodResources) []*podresources.PodResources { return p }

// A kubelet before 1.34 lists a finished pod beside its successor. What is whose shows
// once it has forgotten the first.
func TestPodBesideItsSuccessor(t *testing.T) {
	n := newNode(t)
	link := n.link(trainer, id)
	n.link(reborn, otherID)
	n.start(5, 1, "sshd", "/system.slice/sshd.service") // whose life is no pod's
	n.start(11, 9, "python3", cgroupPath(reborn, otherID))
	n.answer(holder(trainer, "", gpuA), holder(reborn, "", gpuB))
	for range 2 {
		n.poll()
		n.wantHeld(exclusive(gpuA, nameless, false), exclusive(gpuB, nameless, false))
	}
	n.remove(link)
	n.answer(holder(reborn, "", gpuB))
	n.poll()
	n.wantHeld(exclusive(gpuB, reborn, true))
}

// The name passes to a new pod while the kubelet answers. What it said of the
// old pod must not be taken for the new one's, now or later.
func TestPodIsReplacedDuringTheCall(t *testing.T) {
	n := newNode(t)
	old := n.link(trainer, id)
	n.serve(func(context.Context) (*podresources.ListPodResourcesResponse, error) {
		n.remove(old)
		n.link(reborn, otherID)
		n.start(11, 9, "python3", cgroupPath(reborn, otherID))
		return holds(holder(trainer, "", gpuA))(nil)
	})
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, false))
	n.answer(holder(trainer, "", gpuB))
	n.poll()
	n.wantHeld(exclusive(gpuB, reborn, true))
}

// An old answer says nothing about a pod that came since.
func TestPodIsReplacedWithoutAnAnswer(t *testing.T) {
	n := newNode(t)
	old := n.link(trainer, id)
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.answer(holder(trainer, "", gpuA))
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, true))

	n.serve(func(context.Context) (*podresources.ListPodResourcesResponse, error) {
		return nil, status.Error(codes.ResourceExhausted, "rejected by rate limit")
	})
	n.exit(10)
	n.remove(old)
	n.link(reborn, otherID)
	n.start(11, 9, "python3", cgroupPath(reborn, otherID))
	n.pollFails("rejected by rate limit")
	n.wantHeld(exclusive(gpuA, trainer, false))
}
