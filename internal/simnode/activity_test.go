package simnode_test

import (
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
)

// In the scenario timeslice, two pods hold the GPU. So each container must use half of the floor, plus the power of its
// process times the activity.
func TestWatch(t *testing.T) {
	n := open(t, "timeslice")
	var rows simnode.History
	busy := make(map[string]int)
	err := n.Watch(after(3*time.Second), func(row simnode.Truth, on []simnode.Activity) {
		rows = append(rows, row)
		for _, a := range on {
			if a.GPU == row.GPUs[1].UUID {
				busy[a.Name] += a.Percent
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 30 || len(busy) != 2 || len(rows[29].GPUs[1].Containers) != 2 {
		t.Fatalf("%d rows, busy %v; want 30 rows and two containers", len(rows), busy)
	}
	const floor = 71 * 100 // energy of the floor in one step, in mJ
	for _, c := range rows[29].GPUs[1].Containers {
		if want := gpu.Millijoules(500*busy[c.Name] + 30*floor/2); c.Energy != want {
			t.Errorf("%s used %d mJ with activity %d, want %d mJ", c.Name, c.Energy, busy[c.Name], want)
		}
	}
}
