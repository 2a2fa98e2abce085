package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// A withdrawal describes a board that has no counter in the seconds from..to. After three readings without a counter,
// the exporter integrates power. After three readings with a counter, it uses the counter again. The exporter is down
// in the seconds stops..starts.
type withdrawal struct{ from, to, stops, starts int }

// power is the power of the board in the second before s, in mW.
func (withdrawal) power(s int) gpu.Millijoules { return gpu.Millijoules(200_000 + s*7919%400_000) }

// The board's counter continues to count while it is withdrawn.
func (w withdrawal) counter(s int) gpu.Millijoules {
	sum := gpu.Millijoules(90_000_000)
	for i := 1; i <= s; i++ {
		sum += w.power(i)
	}
	return sum
}

func (w withdrawal) run(t *testing.T, seconds int) *gpu.Book {
	t.Helper()
	cfg := ledger.Config{Tick: time.Second, Retention: 5 * time.Minute}
	l, started := ledger.New(cfg), 0
	source, missed, found := "gpu", 0, 0
	p := []*gpu.Process{process(21, in(train))}
	for s := range seconds + 1 {
		if s > w.stops && s < w.starts {
			continue
		}
		if s > 0 && s == w.starts {
			l, started, source, missed, found = ledger.Restore(cfg, l.State()), s, "", 0, 0
		}
		if s >= w.from && s < w.to {
			missed, found = missed+1, 0
			if missed >= 3 || source == "" {
				source = "power"
			}
		} else if missed, found = 0, found+1; found >= 3 || source == "" {
			source = "gpu"
		}
		o := look(float64(s), p, holds(train, 1))
		o.Energy, o.Counter = nil, source
		o.PowerSum = new(w.counter(s) - w.counter(started))
		switch {
		case source == "power":
			o.Energy = o.PowerSum
		case missed == 0:
			o.Energy = new(w.counter(s))
		}
		ask(t, l, o)
	}
	return bookOf(l, uuid)
}

// The counted energy of a board must equal its true energy while the counter is withdrawn and after it returns. The
// exporter restarts in each phase. If an exporter starts while the counter is withdrawn, it integrates power from 0,
// and this counts as a reset. When the counter returns, the ledger must add the energy that the exporter did not count.
func TestWithdrawnCounter(t *testing.T) {
	const seconds = 90
	tests := make(map[withdrawal]uint64) // number of resets
	for _, length := range []int{1, 2, 3, 4, 8, 30} {
		from, to := 20, 20+length
		tests[withdrawal{from, to, 0, 0}] = 0
		tests[withdrawal{from, seconds + 1, 0, 0}] = 0
		for _, down := range []int{1, 2, 20} {
			for _, stops := range []int{10, from - 1, from + length/2, to - 1, to, to + 2, to + 15} {
				w := withdrawal{from, to, stops, stops + down}
				tests[w] = 0
				if from <= w.starts && w.starts < to {
					tests[w] = 1
				}
			}
		}
	}
	for w, resets := range tests {
		t.Run(fmt.Sprintf("%+v", w), func(t *testing.T) {
			b := w.run(t, seconds)
			if want := w.counter(seconds) - w.counter(0); b.Energy != want || b.Resets > resets || b.Rejected != 0 {
				t.Errorf("%d mJ, %d resets, %d rejected; want %d mJ, %d resets", b.Energy, b.Resets, b.Rejected, want, resets)
			}
			if lost := b.Unattributed[gpu.Gap]; resets == 0 && lost != 0 {
				t.Errorf("%d mJ without an owner", lost)
			}
		})
	}
	t.Logf("%d combinations", len(tests))
}
