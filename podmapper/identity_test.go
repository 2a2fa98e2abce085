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

var withoutUID = gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml-team", Name: "train-0", Part: "trainer"}

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
	ambiguous := exclusive(gpuA, withoutUID, false)
	n.wantHeld(ambiguous) // the new pod has no links yet

	n.link(reborn, otherID)
	n.poll()
	n.wantHeld(exclusive(gpuA, reborn, false))
	n.start(11, 9, "python3", cgroupPath(reborn, otherID))
	n.poll()
	n.wantHeld(exclusive(gpuA, reborn, true))

	n.start(10, 5, "python3", cgroupPath(trainer, id)) // both pods are alive, so the name is ambiguous
	n.poll()
	n.wantHeld(ambiguous)
	third := trainer
	third.UID = strings.Repeat("3", 32)
	n.link(third, strings.Repeat("3", 64)) // a third pod with this name does not change the result
	n.poll()
	n.wantHeld(ambiguous)
}

func (n *node) answer(pods ...*podresources.PodResources) {
	n.t.Helper()
	n.serve(holds(pods...))
}

// TestOtherDevicesAreAnotherPods checks a pod that was deleted by force, while its process hangs in the driver. Another
// pod gets the same name and other devices. These devices must not be attributed to the old pod.
func TestOtherDevicesAreAnotherPods(t *testing.T) {
	n := newNode(t)
	n.link(trainer, id)
	n.start(10, 5, "python3", cgroupPath(trainer, id)) // this process runs until the end of the test
	n.answer(holder(trainer, "", gpuA))
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, true))

	n.answer(holder(trainer, "", gpuB))
	for range 2 {
		n.poll()
		n.wantHeld(exclusive(gpuB, withoutUID, false)) // the new pod has no links yet
	}
	link := n.link(reborn, otherID)
	n.poll()
	n.wantHeld(exclusive(gpuB, reborn, false))
	n.start(11, 9, "python3", cgroupPath(reborn, otherID))
	n.poll()
	n.wantHeld(exclusive(gpuB, reborn, true))

	n.exit(11) // a third pod gets the devices of the first pod
	n.remove(link)
	n.answer(holder(trainer, "", gpuA))
	n.poll()
	n.wantHeld(exclusive(gpuA, withoutUID, false))
}

func TestOtherDevices(t *testing.T) {
	const shared = "nvidia.com/gpu.shared"
	tests := []struct {
		name          string
		before, after []*podresources.PodResources
		others        bool
	}{
		{"another GPU", pods(holder(trainer, "", gpuA)), pods(holder(trainer, "", gpuB)), true},
		{"one more GPU", pods(holder(trainer, "", gpuA)), pods(holder(trainer, "", gpuA, gpuB)), true},
		{"one GPU fewer", pods(holder(trainer, "", gpuA, gpuB)), pods(holder(trainer, "", gpuB)), true},
		{"another replica", pods(holder(trainer, shared, gpuA+"::0")), pods(holder(trainer, shared, gpuA+"::1")), true},
		{"another resource", pods(holder(trainer, "", gpuA)), pods(holder(trainer, shared, gpuA)), true},
		{"another container", pods(holder(trainer, "", gpuA)), pods(holder(sidecar, "", gpuA)), true},

		{"another order", pods(together(holder(trainer, "", gpuA), holder(trainer, "", gpuB))), pods(holder(trainer, "", gpuB, gpuA)), false},
		{"the same device twice", pods(holder(trainer, "", gpuA)), pods(holder(trainer, "", gpuA, gpuA)), false},
		{"another pod's", pods(holder(trainer, "", gpuA)), pods(holder(trainer, "", gpuA), holder(notebook, "", gpuB)), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.link(trainer, id)
			n.answer(tt.before...)
			n.poll()
			n.answer() // the kubelet returns an empty list, as shortly after its start
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

// TestPodBesideItsSuccessor checks a list with a finished pod and its successor with the same name, as from kubelets
// before 1.34. The owner of each device must be known as soon as the kubelet stops listing the finished pod.
func TestPodBesideItsSuccessor(t *testing.T) {
	n := newNode(t)
	link := n.link(trainer, id)
	n.link(reborn, otherID)
	n.start(5, 1, "sshd", "/system.slice/sshd.service") // this process is outside all pods
	n.start(11, 9, "python3", cgroupPath(reborn, otherID))
	n.answer(holder(trainer, "", gpuA), holder(reborn, "", gpuB))
	for range 2 {
		n.poll()
		n.wantHeld(exclusive(gpuA, withoutUID, false), exclusive(gpuB, withoutUID, false))
	}
	n.remove(link)
	n.answer(holder(reborn, "", gpuB))
	n.poll()
	n.wantHeld(exclusive(gpuB, reborn, true))
}

// TestPodIsReplacedDuringTheCall checks a pod that gets the name of an old pod during a call to the kubelet. The
// devices in the response belong to the old pod and must not be attributed to the new pod.
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

// TestPodIsReplacedWithoutAnAnswer checks that the devices in an earlier list are not attributed to a pod that was
// created later.
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
