package podmapper_test

import (
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/podmapper"
)

func TestKindsOfDevices(t *testing.T) {
	const mig = "MIG-7c8d9e0f-0102-0304-0506-0708090a0b0e"
	byUUID := func(uuid string) gpu.DeviceName { return gpu.DeviceName{UUID: uuid} }
	onNode := gpu.DeviceName{Node: "nvidia1", Partition: &gpu.PartitionName{Instance: "7"}}
	tests := []struct {
		name   string
		listed *podresources.PodResources
		want   gpu.Allocation
	}{
		{"whole", holder(trainer, "", gpuA), gpu.Allocation{Device: byUUID(gpuA), Resource: "nvidia.com/gpu", Sharing: gpu.SharingExclusive, Replicas: 1}},
		{"replicas", holder(trainer, "", gpuA+"::1", gpuA+"::0"), gpu.Allocation{Device: byUUID(gpuA), Resource: "nvidia.com/gpu", Sharing: gpu.SharingTimeSlicing, Replicas: 2}},
		{"whole, and a replica of it", holder(trainer, "", gpuA, gpuA+"::1"), gpu.Allocation{Device: byUUID(gpuA), Resource: "nvidia.com/gpu", Sharing: gpu.SharingExclusive, Replicas: 1}},
		{"MIG", holder(trainer, "nvidia.com/mig-1g.10gb", mig), gpu.Allocation{Device: byUUID(mig), Resource: "nvidia.com/mig-1g.10gb", Sharing: gpu.SharingMIG, Replicas: 1}},
		{"replicas of MIG", holder(trainer, "nvidia.com/mig-1g.10gb.shared", mig+"::0", mig+"::1"), gpu.Allocation{Device: byUUID(mig), Resource: "nvidia.com/mig-1g.10gb.shared", Sharing: gpu.SharingTimeSlicing, Replicas: 2}},
		{"old MIG", holder(trainer, "", "MIG-"+gpuA+"/7/0"), gpu.Allocation{Device: gpu.DeviceName{UUID: gpuA, Partition: &gpu.PartitionName{Instance: "7"}}, Resource: "nvidia.com/gpu", Sharing: gpu.SharingMIG, Replicas: 1}},
		{"index", holder(trainer, "", "2"), gpu.Allocation{Device: gpu.DeviceName{Index: new(2)}, Resource: "nvidia.com/gpu", Sharing: gpu.SharingExclusive, Replicas: 1}},
		{"MIG by index", holder(trainer, "", "2:0"), gpu.Allocation{Device: gpu.DeviceName{Index: new(2), Partition: &gpu.PartitionName{Ordinal: new(0)}}, Resource: "nvidia.com/gpu", Sharing: gpu.SharingMIG, Replicas: 1}},
		{"device node", holder(trainer, "", "nvidia1"), gpu.Allocation{Device: gpu.DeviceName{Node: "nvidia1"}, Resource: "nvidia.com/gpu", Sharing: gpu.SharingExclusive, Replicas: 1}},
		{"replicas of a device node", holder(trainer, "", "nvidia1/vgpu3", "nvidia1/vgpu0"), gpu.Allocation{Device: gpu.DeviceName{Node: "nvidia1"}, Resource: "nvidia.com/gpu", Sharing: gpu.SharingTimeSlicing, Replicas: 2}},
		{"MIG by device node", holder(trainer, "", "nvidia1/gi7"), gpu.Allocation{Device: onNode, Resource: "nvidia.com/gpu", Sharing: gpu.SharingMIG, Replicas: 1}},
		{"replica of MIG by device node", holder(trainer, "", "nvidia1/gi7/vgpu0"), gpu.Allocation{Device: onNode, Resource: "nvidia.com/gpu", Sharing: gpu.SharingTimeSlicing, Replicas: 1}},
		{"unknown format", holder(trainer, "", "nvidia1/part0"), gpu.Allocation{Resource: "nvidia.com/gpu", Sharing: gpu.SharingExclusive, Replicas: 1}},
		{"AMD's", holder(trainer, "amd.com/gpu", "0000:1b:00.0"), gpu.Allocation{Device: gpu.DeviceName{PCIBusID: "00000000:1B:00.0"}, Resource: "amd.com/gpu", Sharing: gpu.SharingExclusive, Replicas: 1}},
		{"AMD's partition", holder(trainer, "amd.com/cpx_nps4", "amdgpu_xcp_2"), gpu.Allocation{Device: gpu.DeviceName{Partition: &gpu.PartitionName{Device: "amdgpu_xcp_2"}}, Resource: "amd.com/cpx_nps4", Sharing: gpu.SharingMIG, Replicas: 1}},
		{"claim", claimer(trainer, "mine", "gpu-1"), gpu.Allocation{Device: gpu.DeviceName{Node: "nvidia1"}, Claim: "mine", Sharing: gpu.SharingExclusive, Replicas: 1}},
		{"claim of MIG", claimer(trainer, "mine", "gpu-1-mig-1g10gb-19-3"), gpu.Allocation{
			Device: gpu.DeviceName{Node: "nvidia1", Partition: &gpu.PartitionName{ProfileID: new(19), Start: new(3)}}, Claim: "mine", Sharing: gpu.SharingMIG, Replicas: 1,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.link(trainer, id)
			n.serve(holds(tt.listed))
			n.poll()
			tt.want.Owner = trainer
			n.wantHeld(tt.want)
		})
	}
}

// TestSharedClaims checks that all holders of a claimed device share it, through one claim or several claims.
func TestSharedClaims(t *testing.T) {
	n := newNode(t)
	n.link(trainer, id)
	n.link(notebook, otherID)
	part := claimer(notebook, "part", "gpu-3")
	part.Containers[0].DynamicResources[0].ClaimResources[0].ShareId = new("a671734a-e8e5-11e4-8fde-42010af09327")
	n.serve(holds(
		together(claimer(trainer, "ours", "gpu-1", "gpu-2", "gpu-vfio-0"), claimer(sidecar, "twice", "gpu-4"), claimer(sidecar, "again", "gpu-4")),
		together(claimer(notebook, "ours", "gpu-1"), claimer(notebook, "monitor", "gpu-2"), part),
	))
	held := func(minor int, c gpu.Owner, claim string) gpu.Allocation {
		return gpu.Allocation{
			Device: gpu.DeviceName{Node: fmt.Sprintf("nvidia%d", minor)}, Owner: c, Claim: claim,
			Sharing: gpu.SharingTimeSlicing, Replicas: 1,
		}
	}
	alone := func(claim string) gpu.Allocation {
		a := held(4, sidecar, claim)
		a.Sharing = gpu.SharingExclusive
		return a
	}
	n.poll()
	n.wantHeld(
		held(1, notebook, "ours"), held(1, trainer, "ours"),
		held(2, notebook, "monitor"), held(2, trainer, "ours"),
		held(3, notebook, "part"),
		alone("again"), alone("twice"),
	)
}

func TestHoldersShareClaimedDevices(t *testing.T) {
	namesake := notebook
	namesake.Part = trainer.Part
	const exclusive, shared = gpu.SharingExclusive, gpu.SharingTimeSlicing
	tests := []struct {
		name   string
		listed []*podresources.PodResources
		want   []gpu.Sharing // sharing of the allocations, sorted by device, then by namespace
	}{
		{"one container, through two claims", pods(together(claimer(trainer, "a", "gpu-1"), claimer(trainer, "b", "gpu-1"))), []gpu.Sharing{exclusive, exclusive}},
		{"two containers in a pod", pods(together(claimer(trainer, "a", "gpu-1"), claimer(sidecar, "b", "gpu-1"))), []gpu.Sharing{shared, shared}},
		{"containers with the same name", pods(claimer(trainer, "a", "gpu-1"), claimer(namesake, "b", "gpu-1")), []gpu.Sharing{shared, shared}},
		{"one device with another holder", pods(claimer(notebook, "a", "gpu-1", "gpu-2"), claimer(trainer, "b", "gpu-2")), []gpu.Sharing{exclusive, shared, shared}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.serve(holds(tt.listed...))
			n.poll()
			var got []gpu.Sharing
			for _, a := range n.Allocations().List {
				got = append(got, a.Sharing)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("sharing (-want +got):\n%s", diff)
			}
		})
	}
}

// TestClaimedDeviceWithoutCDI checks a claimed device that has no CDI device. The kubelet lists it with the CDI devices
// of the preceding device.
func TestClaimedDeviceWithoutCDI(t *testing.T) {
	n := newNode(t)
	claimed := claimer(trainer, "mine", "gpu-0", "gpu-1")
	for _, r := range claimed.Containers[0].DynamicResources[0].ClaimResources {
		r.CdiDevices = []*podresources.CDIDevice{{Name: "nvidia.com/gpu=" + gpuA}}
	}
	n.serve(holds(claimed))
	n.poll()
	var got []gpu.DeviceName
	for _, a := range n.Allocations().List {
		got = append(got, a.Device)
	}
	if diff := cmp.Diff([]gpu.DeviceName{{UUID: gpuA}, {Node: "nvidia1"}}, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
}

// TestDeviceOfTwoContainers checks a device that a device plugin allocates to two containers of a pod, one after the
// other.
func TestDeviceOfTwoContainers(t *testing.T) {
	n := newNode(t)
	n.link(trainer, id)
	n.serve(holds(together(holder(trainer, "", gpuA), holder(sidecar, "", gpuA))))
	n.poll()
	n.wantHeld(exclusive(gpuA, sidecar, false), exclusive(gpuA, trainer, false))
}

// TestClaimOfSeveralContainers checks that the devices of a claim to which several containers refer are allocated to
// the pod, without a container.
func TestClaimOfSeveralContainers(t *testing.T) {
	const claim = "train-0-extended-resources-x7k2p"
	n := newNode(t)
	two := claimer(trainer, claim, "gpu-0", "gpu-1")
	two.Containers = append(two.Containers, claimer(sidecar, claim, "gpu-0", "gpu-1").Containers...)
	two.Containers = append(two.Containers, claimer(sidecar, "mine", "gpu-2").Containers...)
	served := message(2, claim, 1, message(1, "trainer", 2, "nvidia.com/gpu"), 1, message(1, "sidecar", 2, "nvidia.com/gpu"))
	n.servePods(append(apiPod(trainer, "Running", nil, "sidecar"), message(3, message(18, served))...), apiPod(notebook, "Running", nil))
	held := func(minor int, c gpu.Owner, sharing gpu.Sharing) gpu.Allocation {
		return gpu.Allocation{
			Device: gpu.DeviceName{Node: fmt.Sprintf("nvidia%d", minor)}, Owner: c, Claim: claim,
			Resource: "nvidia.com/gpu", Sharing: sharing, Replicas: 1, Live: true,
		}
	}
	anyOf := trainer
	anyOf.Part = ""
	mine := held(2, sidecar, gpu.SharingExclusive)
	mine.Resource, mine.Claim = "", "mine"
	n.answer(two)
	n.poll()
	n.wantHeld(held(0, anyOf, gpu.SharingExclusive), held(1, anyOf, gpu.SharingExclusive), mine)

	other := held(1, notebook, gpu.SharingTimeSlicing)
	other.Resource = ""
	n.answer(two, claimer(notebook, claim, "gpu-1"))
	n.poll()
	n.wantHeld(held(0, anyOf, gpu.SharingExclusive), other, held(1, anyOf, gpu.SharingTimeSlicing), mine)
}

// TestWarnsOnceOfIDs checks that the mapper logs device ids in an unknown format, and no other ids. It must log one
// such id per resource.
func TestWarnsOnceOfIDs(t *testing.T) {
	var log strings.Builder
	n := newNode(t, func(c *podmapper.Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	n.serve(holds(
		together(holder(trainer, "", gpuA), holder(trainer, "", "part0", "part1"), holder(trainer, "rdma/hca", "part0")),
		holder(notebook, "nvidia.com/mig-1g.10gb", strings.Repeat("x", 10_000)),
	))
	for range 3 {
		n.poll()
	}
	lines := slices.Sorted(strings.Lines(log.String()))
	if len(lines) != 2 || len(log.String()) > 2000 {
		t.Fatalf("logged %d lines, want 2:\n%s", len(lines), log.String())
	}
	for _, line := range lines {
		if !strings.Contains(line, "level=WARN") || !strings.Contains(line, "--kubelet.resource-pattern") {
			t.Errorf("log line without advice: %s", line)
		}
	}
	for _, want := range []string{"resource=nvidia.com/gpu id=part0 namespace=ml-team", "resource=nvidia.com/mig-1g.10gb id=xxx"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log does not contain %s:\n%s", want, log.String())
		}
	}
}

func TestResources(t *testing.T) {
	tests := []struct {
		resource, id string
		pattern      string // resource pattern; if it is empty, the default is used
		want         bool
	}{
		{"nvidia.com/gpu", gpuA, "", true},
		{"nvidia.com/gpu.shared", gpuA + "::0", "", true},
		{"nvidia.com/mig-1g.10gb", gpuA, "", true},
		{"nvidia.com/gpu-a100", gpuA, "", true},
		{"nvidia.com/GA100_A100_PCIE_40GB", "37", "", false}, // the GPU is passed through, so the id is an IOMMU group
		{"nvidia.com/pgpu", "37", "", false},
		{"nvidia.com/hostdev", "0000:03:00.2", "", false},
		{"example.com/nvidia.com/gpu", gpuA, "", false},
		{"amd.com/gpu", "0000:0b:00.0", "", true},
		{"amd.com/spx_nps1", "0000:0b:00.0", "", true},
		{"amd.com/cpx_nps4", "amdgpu_xcp_1", "", true},
		{"amd.com/gpu.vram", "0000:0b:00.0", "", false},
		{"amd.com/nic", "0000:0b:00.0", "", false},
		{"example.com/gpu", "0000:0b:00.0", "", false},
		{"example.com/gpu", "0000:0b:00.0", `^(example|nvidia)\.com/gpu$`, true},
		{"nvidia.com/a100", gpuA, `^nvidia\.com/a100$`, true},
		{"nvidia.com/gpu", gpuA, `^nvidia\.com/a100$`, false},
	}
	for _, tt := range tests {
		t.Run(tt.resource+" "+tt.pattern, func(t *testing.T) {
			n := newNode(t, func(c *podmapper.Config) {
				if tt.pattern != "" {
					c.Resources = regexp.MustCompile(tt.pattern)
				}
			})
			n.serve(holds(holder(trainer, tt.resource, tt.id)))
			n.poll()
			if got := len(n.Allocations().List) == 1; got != tt.want {
				t.Errorf("held = %v, want %v", got, tt.want)
			}
		})
	}
}
