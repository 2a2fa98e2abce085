package ledger_test

import (
	"math"
	"testing"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// The processes of one pod end between two ticks. Only one in ten of them is identified, but the pod must pay for all
// of them. Another pod on the GPU starts a process every half minute, and must pay for none of the short processes. In
// a second run all processes are identified. The charges of the two runs must differ by at most 1 % of the GPU's
// energy.
func TestRarelySeenProcesses(t *testing.T) {
	unmapped := gpu.Owner{Kind: gpu.OwnerUnmapped}
	got, want := shortLivedBeside(t, unmapped), shortLivedBeside(t, in(train))
	if got.Energy != want.Energy || got.Unattributed != want.Unattributed {
		t.Errorf("unattributed %v of %d mJ, want %v of %d mJ", got.Unattributed, got.Energy, want.Unattributed, want.Energy)
	}
	for _, owner := range []gpu.Owner{train, serve} {
		g, w := find(got, gpu.AccountKey{Owner: owner}).Energy.Sum(), find(want, gpu.AccountKey{Owner: owner}).Energy.Sum()
		if math.Abs(float64(g-w)) > 0.01*float64(want.Energy) {
			t.Errorf("%s is charged %d mJ, want %d", owner.Name, g, w)
		}
	}
}

// One pod runs a short process in every second. Another pod runs processes that each last for half a minute. The given
// owner owns nine of ten short processes.
func shortLivedBeside(t *testing.T, owner gpu.Owner) *gpu.Book {
	l := newLedger()
	held := []gpu.Allocation{holds(train, 2), holds(serve, 2)}
	lasting := process(100, in(serve))
	ask(t, l, look(0, []*gpu.Process{lasting}, held...))
	for s := 1; s <= 600; s++ {
		short := &gpu.Process{ID: gpu.ProcessID{PID: uint32(1000 + s)}, Owner: owner}
		o := look(float64(s), []*gpu.Process{lasting}, held...)
		o.Activity = append(o.Activity, worked(lasting, 300), worked(short, 600))
		switch s % 10 {
		case 4: // present at the tick
			o.Processes = append(o.Processes, process(uint32(5000+s), in(train)))
		case 5:
			o.Activity = append(o.Activity, worked(process(uint32(5000+s-1), in(train)), 50))
		}
		if s%30 == 29 {
			lasting = process(uint32(100+s), in(serve))
		}
		for i := range o.Activity {
			o.Activity[i].Span = o.Sampled
		}
		ask(t, l, o)
	}
	return bookOf(l, uuid)
}
