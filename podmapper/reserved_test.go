package podmapper_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

const gpuUUID = "GPU-5d2f9a60-0000-4000-8000-000000000001"

// labelled returns a pod with a label (field 11) or an annotation (field 12) in its metadata.
func labelled(c gpu.Owner, field int, name, value string) []byte {
	entry := message(1, name, 2, value)
	return message(1, message(1, c.Name, 3, c.Scope, 5, c.UID, field, entry), 2, message(2, message(1, c.Part)), 3, message(1, "Running"))
}

// held returns the owners of the allocations, by device. The word "reserved" replaces unknown pods.
func (n *node) held() map[string][]string {
	of := make(map[string][]string)
	for _, a := range n.Allocations().List {
		who := a.Owner.Scope + "/" + a.Owner.Name + "/" + a.Owner.Part + " " + string(a.Sharing)
		if a.Reserved {
			who = "reserved"
		}
		of[a.Device.UUID] = append(of[a.Device.UUID], who)
	}
	return of
}

// reservation is a pod with which KAI or Run:ai reserves a GPU. The other two pods may share this GPU.
var (
	reservation = gpu.Owner{Kind: gpu.OwnerPod, Scope: "kai-resource-reservation", Name: "gpu-reservation-node-x", UID: "0a1b2c3d-0000-4000-8000-000000000001", Part: "resource-reservation"}
	user        = gpu.Owner{Kind: gpu.OwnerPod, Scope: "team-a", Name: "half", UID: "0a1b2c3d-0000-4000-8000-000000000002", Part: "main"}
	other       = gpu.Owner{Kind: gpu.OwnerPod, Scope: "team-b", Name: "other", UID: "0a1b2c3d-0000-4000-8000-000000000003", Part: "main"}
)

// TestReservation checks that the holders of a reserved GPU are the live pods in the group, and never the pod that
// reserves the GPU.
func TestReservation(t *testing.T) {
	n := newNode(t)
	n.serve(holds(holder(reservation, "nvidia.com/gpu", gpuUUID)))
	n.poll()
	if diff := cmp.Diff(map[string][]string{gpuUUID: {"reserved"}}, n.held()); diff != "" {
		t.Errorf("without the Pods API (-want +got):\n%s", diff)
	}
	n.servePods(
		labelled(reservation, 11, "runai-gpu-group", "g1"), labelled(user, 11, "runai-gpu-group/g1", "g1"), labelled(other, 11, "runai-gpu-group", "g2"))
	n.poll()
	if diff := cmp.Diff(map[string][]string{gpuUUID: {"team-a/half/main time-slicing"}}, n.held()); diff != "" {
		t.Errorf("with the Pods API (-want +got):\n%s", diff)
	}
}

// TestReservationWithoutPods checks the holders of a reserved GPU after the Pods API stops responding. An ended pod
// must no longer be a holder. After three polls, no pods may be known.
func TestReservationWithoutPods(t *testing.T) {
	n := newNode(t)
	n.serve(holds(holder(reservation, "nvidia.com/gpu", gpuUUID)))
	for i, o := range []gpu.Owner{reservation, user, other} {
		n.start(uint32(10+i), 5, "sleep", cgroupPath(o, id))
		n.link(o, strings.Repeat(strconv.Itoa(i), 64))
	}
	api := n.servePods(
		labelled(reservation, 11, "runai-gpu-group", "g1"), labelled(user, 11, "runai-gpu-group", "g1"), labelled(other, 11, "runai-gpu-group", "g1"))
	n.poll()
	want := map[string][]string{gpuUUID: {"team-a/half/main time-slicing", "team-b/other/main time-slicing"}}
	if diff := cmp.Diff(want, n.held()); diff != "" {
		t.Errorf("with the Pods API (-want +got):\n%s", diff)
	}
	api.stop()
	n.exit(11)
	n.pass(10 * time.Second)
	n.pollFails("list pods")
	if diff := cmp.Diff(map[string][]string{gpuUUID: {"team-b/other/main time-slicing"}}, n.held()); diff != "" {
		t.Errorf("after 10 s without the Pods API (-want +got):\n%s", diff)
	}
	n.pass(30 * time.Second)
	n.pollFails("list pods")
	if diff := cmp.Diff(map[string][]string{gpuUUID: {"reserved"}}, n.held()); diff != "" {
		t.Errorf("after 40 s without the Pods API (-want +got):\n%s", diff)
	}
}

// The ids that HAMi registers do not name a GPU, so the mapper must read the GPU from the pod's annotation.
func TestVirtualGPU(t *testing.T) {
	const chosen = "GPU-5d2f9a60-0000-4000-8000-000000000002"
	user := gpu.Owner{Kind: gpu.OwnerPod, Scope: "team-a", Name: "vgpu", UID: "0a1b2c3d-0000-4000-8000-000000000002", Part: "main"}
	n := newNode(t)
	n.serve(holds(holder(user, "nvidia.com/gpu", gpuUUID+"-3")))
	n.poll()
	if diff := cmp.Diff(map[string][]string{"": {"team-a/vgpu/main exclusive"}}, n.held()); diff != "" {
		t.Errorf("without the Pods API (-want +got):\n%s", diff)
	}
	n.servePods(labelled(user, 12, "hami.io/vgpu-devices-allocated", chosen+",NVIDIA,3000,30:;"))
	n.poll()
	if diff := cmp.Diff(map[string][]string{chosen: {"team-a/vgpu/main time-slicing"}}, n.held()); diff != "" {
		t.Errorf("with the Pods API (-want +got):\n%s", diff)
	}
}
