package record_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/record"
)

// TestNew checks the rows of a snapshot. A lost GPU has no placement row but a board row. A pod row
// is the sum of its containers. An owner without a name and a UID has no row. A counter that
// continues an earlier amount has no start time.
func TestNew(t *testing.T) {
	opened := time.Unix(1_800_000_000, 0)
	account := func(pod, part string, mJ gpu.Millijoules) gpu.Account {
		a := gpu.Account{
			Opened: opened.Add(time.Duration(mJ)), Energy: gpu.ByMethod{gpu.Exclusive: 1, gpu.Shared: mJ}, Idle: mJ / 2, Estimated: 4 * mJ,
			Allocated: time.Duration(mJ), Active: time.Duration(2 * mJ), Busy: time.Duration(5 * mJ), GPUTime: time.Duration(3 * mJ),
		}
		a.Owner = gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml", Name: pod, UID: "uid-" + pod, Part: part}
		return a
	}
	unknown := account("lost", "main", 5)
	unknown.UID = ""
	rows := &gpu.RowRemap{Correctable: 4}
	s := &gpu.Snapshot{
		Node: gpu.Node{Name: "n", SystemUUID: "u"},
		GPUs: []gpu.GPU{
			{
				Present: true,
				Device: gpu.Device{
					UUID: "GPU-a", Serial: "1", PCIBusID: "p", Model: "N/A", Platform: gpu.Platform{ChassisSerial: "c", Slot: new(4)},
					EnergySource: gpu.EnergyCounter, EnergyScope: gpu.ScopeGPU,
				},
				Events:  gpu.DriverEvents{Since: opened, Losses: 3, ByCode: map[uint64]uint64{79: 1}},
				Reading: &gpu.Reading{RowRemap: rows},
				Book: &gpu.Book{
					Opened: opened, Energy: 100, Resets: 2, Uncounted: 8, Estimated: 6, Unattributed: [gpu.NumReasons]gpu.Millijoules{gpu.Gap: 9},
					Accounts: []gpu.Account{account("x", "one", 10), account("x", "two", 20), account("y", "one", 30), unknown},
				},
			},
			{Device: gpu.Device{UUID: "GPU-b"}, Renamed: opened.Add(time.Second), Reading: &gpu.Reading{RowRemap: rows}, Book: &gpu.Book{Opened: opened, Energy: 7}},
			{Present: true, Device: gpu.Device{UUID: "GPU-c"}},
		},
	}
	row := func(pod string, containers, mJ, first gpu.Millijoules) record.Allocation {
		return record.Allocation{
			Node: "n", UUID: "GPU-a", Serial: "1", ChassisSerial: "c", Namespace: "ml", Pod: pod, PodUID: "uid-" + pod,
			Amounts: record.Amounts{
				Energy: mJ + containers, Exclusive: containers, Idle: mJ / 2, Estimated: 4 * mJ,
				Held: time.Duration(mJ), Active: time.Duration(2 * mJ), Busy: time.Duration(5 * mJ), GPUTime: time.Duration(3 * mJ),
				Since: opened.Add(time.Duration(first)),
			},
		}
	}
	want := record.Rows{
		Placements: []record.Placement{
			{Node: "n", SystemUUID: "u", UUID: "GPU-a", Serial: "1", ChassisSerial: "c", ChassisSlot: new(4), PCIBusID: "p"},
			{Node: "n", SystemUUID: "u", UUID: "GPU-c"},
		},
		Health: []record.Health{
			{Node: "n", UUID: "GPU-a", Serial: "1", XIDs: map[uint64]uint64{79: 1}, Losses: 3, Rows: rows, Since: opened},
			{Node: "n", UUID: "GPU-b"},
			{Node: "n", UUID: "GPU-c"},
		},
		Boards: []record.Board{
			{
				Node: "n", UUID: "GPU-a", Serial: "1", Energy: 100, Unattributed: [gpu.NumReasons]gpu.Millijoules{gpu.Gap: 9}, Resets: 2, Uncounted: 8, Estimated: 6,
				Source: gpu.EnergyCounter, Scope: gpu.ScopeGPU, Since: opened,
			},
			{Node: "n", UUID: "GPU-b", Energy: 7},
		},
		Allocations: []record.Allocation{row("x", 2, 30, 10), row("y", 1, 30, 30)},
	}
	if diff := cmp.Diff(want, record.New(s)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}
