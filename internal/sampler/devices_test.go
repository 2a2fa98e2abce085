package sampler_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

func TestDeviceNames(t *testing.T) {
	mig := &gpu.Partitioning{Slices: 7, Instances: []gpu.Partition{
		{ID: "1", Profile: "3g.40gb", ProfileID: 9, Start: 4, Slices: 3, Devices: []gpu.PartitionDevice{{UUID: "MIG-a", Index: 1}}},
		{ID: "5", Profile: "2g.20gb", ProfileID: 14, Start: 0, Slices: 2, Devices: []gpu.PartitionDevice{{UUID: "MIG-b", Index: 0}, {UUID: "MIG-c", Index: 4}}},
	}}
	mig.Instances = append(mig.Instances,
		gpu.Partition{ID: "8", Slices: 1, ProfileID: -1, Start: -1, Devices: []gpu.PartitionDevice{{UUID: "0000:43:00.0", Index: 8, Node: "dri/renderD129"}}},
		gpu.Partition{ID: "9", Slices: 1, ProfileID: -1, Start: -1, Devices: []gpu.PartitionDevice{{UUID: "amdgpu_xcp_1", Index: 9, Node: "dri/renderD130"}}},
	)
	type place struct{ UUID, Instance string }
	tests := []struct {
		name string
		of   gpu.DeviceName
		want []place
	}{
		{"GPU by UUID", gpu.DeviceName{UUID: first}, []place{{first, ""}}},
		{"GPU by index", gpu.DeviceName{Index: new(0)}, []place{{first, ""}}},
		{"GPU by PCI address", gpu.DeviceName{PCIBusID: "00000000:1B:00.0"}, []place{{first, ""}}},
		{"a PCI address without a GPU", gpu.DeviceName{PCIBusID: "00000000:44:00.0"}, nil},
		{"GPU by minor number", gpu.DeviceName{Node: "nvidia7"}, []place{{first, ""}}},
		{"unknown index", gpu.DeviceName{Index: new(9)}, nil},
		{"no name", gpu.DeviceName{}, nil},
		{"MIG device by UUID", gpu.DeviceName{UUID: "MIG-c"}, []place{{second, "5"}}},
		{"unknown MIG device", gpu.DeviceName{UUID: "MIG-x"}, nil},
		{"MIG device by instance", gpu.DeviceName{UUID: second, Partition: &gpu.PartitionName{Instance: "1"}}, []place{{second, "1"}}},
		{"MIG device by an unused index between two others", gpu.DeviceName{Index: new(1), Partition: &gpu.PartitionName{Ordinal: new(2)}}, nil},
		{"MIG device by its index", gpu.DeviceName{Index: new(1), Partition: &gpu.PartitionName{Ordinal: new(4)}}, []place{{second, "5"}}},
		{"MIG device by an index after the last", gpu.DeviceName{Index: new(1), Partition: &gpu.PartitionName{Ordinal: new(5)}}, nil},
		{"MIG device by profile and place", gpu.DeviceName{Node: "nvidia8", Partition: &gpu.PartitionName{ProfileID: new(9), Start: new(4)}}, []place{{second, "1"}}},
		{"another profile in the place", gpu.DeviceName{Node: "nvidia8", Partition: &gpu.PartitionName{ProfileID: new(14), Start: new(4)}}, nil},
		{"a profile without a place", gpu.DeviceName{Node: "nvidia8", Partition: &gpu.PartitionName{ProfileID: new(9)}}, nil},
		{"a place without a profile", gpu.DeviceName{Node: "nvidia8", Partition: &gpu.PartitionName{Start: new(4)}}, nil},
		{"first partition by its PCI address", gpu.DeviceName{PCIBusID: "00000000:43:00.0"}, []place{{second, "8"}}},
		{"partition by the name of its device", gpu.DeviceName{Partition: &gpu.PartitionName{Device: "amdgpu_xcp_1"}}, []place{{second, "9"}}},
		{"unknown partition", gpu.DeviceName{Partition: &gpu.PartitionName{Device: "amdgpu_xcp_2"}}, nil},
		{"first partition by its device node", gpu.DeviceName{Node: "dri/renderD129"}, []place{{second, "8"}}},
		{"partition by its device node", gpu.DeviceName{Node: "dri/renderD130"}, []place{{second, "9"}}},
		{"MIG device of a whole GPU", gpu.DeviceName{UUID: first, Partition: &gpu.PartitionName{Instance: "1"}}, nil},
		{"MIG device of a whole GPU by its index", gpu.DeviceName{Index: new(0), Partition: &gpu.PartitionName{Ordinal: new(0)}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.devices[0].DeviceNode, w.devices[1].DeviceNode, w.devices[1].Partitions = "nvidia7", "nvidia8", mig
			w.allocations.List = []gpu.Allocation{{Device: tt.of, Owner: train, Sharing: gpu.SharingMIG, Replicas: 1, Live: true}}
			var got []place
			for _, g := range w.ticks(w.sampler(), 2).GPUs {
				for _, a := range g.Book.Accounts {
					got = append(got, place{g.UUID, a.GPUInstance})
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("accounts (-want +got):\n%s", diff)
			}
		})
	}
}

// An index must refer to the present GPU even if a lost GPU had this index.
func TestLostIndex(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	w.ticks(s, 1)
	w.devices = w.devices[1:]
	w.devices[0].Index = 0
	w.allocations.List = []gpu.Allocation{{Device: gpu.DeviceName{Index: new(0)}, Owner: train, Replicas: 1, Live: true}}
	snap := w.ticks(s, 2)
	if len(snap.GPUs[0].Holders) != 0 || len(snap.GPUs[1].Holders) != 1 {
		t.Errorf("holders: %+v, want one on the present GPU", snap.GPUs)
	}
}

// An index must refer to a lost GPU if no other GPU has this index.
func TestLostName(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	w.allocations.List = []gpu.Allocation{{Device: gpu.DeviceName{Index: new(1)}, Owner: train, Replicas: 1, Live: true}}
	w.ticks(s, 1)
	w.devices = w.devices[:1]
	if g := w.ticks(s, 2).GPUs[1]; g.Present || len(g.Holders) != 1 {
		t.Errorf("%+v", g)
	}
}

// An index must refer to the NVIDIA GPU even if a GPU of another vendor has this index.
func TestIndexOfVendor(t *testing.T) {
	w := newWorld(t)
	w.devices[0].Vendor, w.devices[1].Vendor = "AMD", "NVIDIA"
	w.devices[0].Index, w.devices[1].Index = 0, 0
	w.allocations.List = []gpu.Allocation{{Device: gpu.DeviceName{Index: new(0)}, Owner: train, Sharing: gpu.SharingExclusive, Replicas: 1, Live: true}}
	var got []string
	for _, g := range w.ticks(w.sampler(), 2).GPUs {
		for range g.Book.Accounts {
			got = append(got, g.UUID)
		}
	}
	if diff := cmp.Diff([]string{w.devices[1].UUID}, got); diff != "" {
		t.Errorf("accounts (-want +got):\n%s", diff)
	}
}

// AMD GPUs and partitions must be found by position, even in a machine that also contains an NVIDIA GPU.
func TestPosition(t *testing.T) {
	w := newWorld(t)
	w.devices[0].Position = new(1)
	w.devices[0].Partitions = &gpu.Partitioning{Slices: 2, Instances: []gpu.Partition{{ID: "0", Slices: 1}, {ID: "1", Slices: 1}}}
	whole := w.devices[0]
	whole.UUID, whole.PCIBusID, whole.Index, whole.Position, whole.Partitions = "5a1f00000000001b", "00000000:E5:00.0", 7, new(3), nil
	w.devices = append(w.devices, whole)
	for i := range 5 {
		w.allocations.List = append(w.allocations.List, gpu.Allocation{
			Device: gpu.DeviceName{Position: &i}, Owner: gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml", Name: fmt.Sprint("at-", i), UID: fmt.Sprint("uid-", i)},
			Sharing: gpu.SharingExclusive, Replicas: 1, Live: true,
		})
	}
	got := make(map[string]string)
	for _, g := range w.ticks(w.sampler(), 1).GPUs {
		for _, h := range g.Holders {
			got[h.Name] = g.UUID + " " + h.GPUInstance
		}
	}
	divided := w.devices[0].UUID
	want := map[string]string{"at-1": divided + " 0", "at-2": divided + " 1", "at-3": whole.UUID + " "} // the positions 0 and 4 have no GPU
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
}
