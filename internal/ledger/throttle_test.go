package ledger_test

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// Two owners share a GPU in random proportions. In each second, the throttled energy of an owner must be its energy
// times the throttled fraction of the second.
func TestThrottled(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 3))
		l := newLedger()
		first, second := process(21, train), process(11, serve)
		energy, counters := gpu.Millijoules(1_000_000), gpu.ThrottledTimes{5 * time.Hour, time.Minute}
		var want [gpu.NumThrottles][2]big.Rat
		var times [gpu.NumThrottles]time.Duration
		var before [2]gpu.Millijoules
		var throttled gpu.ThrottledTimes
		var book *gpu.Book
		for s := range 60 {
			if s > 0 {
				energy += gpu.Millijoules(100_000 + r.Int64N(500_000))
				for c := range throttled {
					throttled[c] = []time.Duration{0, 0, time.Second, time.Duration(r.Int64N(int64(time.Second)))}[r.IntN(4)]
					counters[c] += throttled[c]
					times[c] += throttled[c]
				}
			}
			o := look(float64(s), []*gpu.Process{first, second}, holds(train, 2), holds(serve, 2))
			o.Energy, o.Throttled = new(energy), new(counters)
			o.Activity = []ledger.Activity{worked(first, time.Duration(1+r.IntN(500))), worked(second, time.Duration(1+r.IntN(500)))}
			l.Observe(o)
			l.Settle(o.At, unresolved)
			book = bookOf(l, uuid)
			for i, owner := range []gpu.Owner{train, serve} {
				a := find(book, gpu.AccountKey{Owner: owner})
				if a == nil {
					continue
				}
				gained := a.Energy.Sum() - before[i]
				before[i] = a.Energy.Sum()
				for c := range throttled {
					want[c][i].Add(&want[c][i], new(big.Rat).Mul(big.NewRat(int64(gained), 1), big.NewRat(int64(throttled[c]), int64(time.Second))))
				}
			}
		}
		if book.Settled != at(59) {
			t.Fatalf("settled up to %v", book.Settled)
		}
		for c := range times {
			if book.Throttled[c].Time != times[c] {
				t.Errorf("seed %d, %v: %v, want %v", seed, gpu.Throttle(c), book.Throttled[c].Time, times[c])
			}
			for i, owner := range []gpu.Owner{train, serve} {
				got := find(book, gpu.AccountKey{Owner: owner}).Throttled[c]
				exact, _ := want[c][i].Float64()
				if missing := exact - float64(got.Energy); missing < 0 || missing > 60 { // each second is rounded down
					t.Errorf("seed %d, %v of %s: %d mJ, want %.1f mJ", seed, gpu.Throttle(c), owner.Name, got.Energy, exact)
				}
				if got.Time != times[c] {
					t.Errorf("seed %d, %v of %s: %v, want %v", seed, gpu.Throttle(c), owner.Name, got.Time, times[c])
				}
			}
		}
	}
}

// The throttled fraction of late energy must equal the throttled fraction of the time since the counter last changed.
// No time may count twice.
func TestThrottledLate(t *testing.T) {
	var all []ledger.Observation
	for s := range 7 {
		o := look(float64(s), []*gpu.Process{process(21, train)}, holds(train, 1))
		o.Energy = new(gpu.Millijoules(1_000_000 + s/3*900_000)) // the counter is refreshed every three seconds
		o.Throttled = &gpu.ThrottledTimes{gpu.ThrottleThermal: time.Duration(s) * time.Second / 4}
		all = append(all, o)
	}
	b := ask(t, newLedger(), all...)
	want := gpu.Throttled{Energy: 1_800_000 / 4, Time: 6 * time.Second / 4}
	if got := find(b, gpu.AccountKey{Owner: train}).Throttled[gpu.ThrottleThermal]; got != want || b.Throttled[gpu.ThrottleThermal] != want {
		t.Errorf("owner %+v, GPU %+v, want %+v", got, b.Throttled[gpu.ThrottleThermal], want)
	}
}

// No throttled time or energy may be charged for the time before the first value of a throttle counter. No time may
// count twice, for example after a restart of the counter.
func TestThrottledUnknown(t *testing.T) {
	tests := map[string]struct {
		counters []time.Duration // counter of the power brake at each second; a negative value means unknown
		seconds  []float64
		want     time.Duration
	}{
		"first value is large":     {[]time.Duration{time.Hour, time.Hour}, []float64{0, 1}, 0},
		"throttled all the time":   {[]time.Duration{0, time.Second, 2 * time.Second}, []float64{0, 1, 2}, 2 * time.Second},
		"restarted":                {[]time.Duration{time.Hour, 0, time.Second}, []float64{0, 1, 2}, time.Second},
		"unknown for a second":     {[]time.Duration{0, -1, time.Second, time.Second}, []float64{0, 1, 2, 3}, time.Second},
		"unknown all the time":     {[]time.Duration{-1, -1}, []float64{0, 1}, 0},
		"longer than the interval": {[]time.Duration{0, time.Minute}, []float64{0, 1}, time.Second},
		"throttled during a gap":   {[]time.Duration{0, time.Minute, time.Minute}, []float64{0, 60, 61}, 0},
		"a second after the gap":   {[]time.Duration{0, time.Minute, time.Minute + time.Second}, []float64{0, 60, 61}, time.Second},
		"throttled before a stop":  {[]time.Duration{0, time.Second, time.Second}, []float64{0, 1, 2}, time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var all []ledger.Observation
			for i, s := range tt.seconds {
				o := look(s, []*gpu.Process{process(21, train)}, holds(train, 1))
				if tt.counters[i] >= 0 {
					o.Throttled = &gpu.ThrottledTimes{gpu.ThrottlePowerBrake: tt.counters[i]}
				}
				all = append(all, o)
			}
			b := ask(t, newLedger(), all...)
			want := gpu.Throttled{Time: tt.want, Energy: gpu.Millijoules(tt.want.Seconds() * 300_000)}
			if got := find(b, gpu.AccountKey{Owner: train}).Throttled[gpu.ThrottlePowerBrake]; got != want || b.Throttled[gpu.ThrottlePowerBrake] != want {
				t.Errorf("owner %+v, GPU %+v, want %+v", got, b.Throttled[gpu.ThrottlePowerBrake], want)
			}
		})
	}
}
