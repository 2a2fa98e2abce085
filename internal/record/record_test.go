package record_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/record"
)

// TestNew: a lost GPU has no placement but a board, a pod is the sum of its containers, an
// owner that is not known by name and UID has no row, and a counter that took over an amount
// has no beginning.
func TestNew(t *testing.T) {
	opened := time.Unix(1_800_000_000, 0)
	account := func(pod, part string, mJ gpu.Millijoules) gpu.Account {
		a := gpu.Account{Opened: opened.Add(time.Duration(mJ)), Energy: gpu.ByMethod{gpu.Shared: mJ}, Allocated: time.Duration(mJ)}
		a.Owner = gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml", Name: pod, UID: "uid-" + pod, Part: part}
		return a
	}
	unknown := account("lost", "main", 5)
	unknown.UID = ""
	s := &gpu.Snapshot{
		Node: gpu.Node{Name: "n", SystemUUID: "u"},
		GPUs: []gpu.GPU{
			{
				Present: true, Device: gpu.Device{UUID: "GPU-a", Serial: "1", PCIBusID: "p", Model: "N/A", Platform: gpu.Platform{ChassisSerial: "c", Slot: new(4)}},
				Book: &gpu.Book{Opened: opened, Energy: 100, Accounts: []gpu.Account{account("x", "one", 10), account("x", "two", 20), account("y", "one", 30), unknown}},
			},
			{Device: gpu.Device{UUID: "GPU-b"}, Renamed: opened.Add(time.Second), Book: &gpu.Book{Opened: opened, Energy: 7}},
			{Present: true, Device: gpu.Device{UUID: "GPU-c"}},
		},
	}
	row := func(pod string, mJ gpu.Millijoules, first gpu.Millijoules) record.Allocation {
		return record.Allocation{
			Node: "n", UUID: "GPU-a", Serial: "1", ChassisSerial: "c", Namespace: "ml", Pod: pod, PodUID: "uid-" + pod,
			Energy: mJ, Held: time.Duration(mJ), Since: opened.Add(time.Duration(first)),
		}
	}
	want := record.Rows{
		Placements: []record.Placement{
			{Node: "n", SystemUUID: "u", UUID: "GPU-a", Serial: "1", ChassisSerial: "c", ChassisSlot: new(4), PCIBusID: "p"},
			{Node: "n", SystemUUID: "u", UUID: "GPU-c"},
		},
		Boards:      []record.Board{{Node: "n", UUID: "GPU-a", Serial: "1", Energy: 100, Since: opened}, {Node: "n", UUID: "GPU-b", Energy: 7}},
		Allocations: []record.Allocation{row("x", 30, 10), row("y", 30, 30)},
	}
	if diff := cmp.Diff(want, record.New(s)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}
