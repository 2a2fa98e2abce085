package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// A board runs near full power. Its counter is late by a random time of up to eight seconds. The ledger must not lose
// late energy or count it as a reset.
func TestLateCounter(t *testing.T) {
	const power = 690_000 // power in mW, for a board with a limit of 700 W
	p := process(21, in(train))
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 3))
		l := newLedger()
		shown, behind := 0.0, 0.0
		for s := range 301 {
			switch {
			case s < 10 || s > 290:
				behind = 0
			case r.IntN(10) == 0:
				behind = 8 * r.Float64() // a new delay: the counter rises slowly until this second
			}
			shown = max(shown, float64(s)-behind, min(shown+0.1, float64(s)))
			l.Observe(count(look(float64(s), []*gpu.Process{p}, holds(train, 1)), gpu.Millijoules(shown*power)))
			l.Settle(at(float64(s)), unresolved)
		}
		b := bookOf(l, uuid)
		if b.Energy != 300*power || b.Resets+b.Rejected != 0 || b.Uncounted != 0 {
			t.Errorf("seed %d: %d mJ, %d resets, %d readings rejected, at most %d mJ uncounted; want %d, 0, 0, 0", seed, b.Energy, b.Resets, b.Rejected, b.Uncounted, 300*power)
		}
		if a := b.Accounts[0]; a.Energy.Sum() != b.Energy {
			t.Errorf("seed %d: the only owner was charged %v, want a total of %d mJ", seed, a.Energy, b.Energy)
		}
		b = ask(t, l, count(look(301, nil), 1000), count(look(302, nil), 2000), count(look(303, nil), 3000))
		if b.Resets != 1 {
			t.Errorf("seed %d: %d resets after a fall, want 1", seed, b.Resets)
		}
	}
}

// The owners change while the counter is late, so the late energy must be charged like the energy of a gap. The GPU
// uses 690 J per second. For five seconds, the counter increases by only 69 J per second. Then it catches up. In the
// last second, the board can have drawn 770 J (700 W over the second and one step of the counter).
func TestLateCounterOfTwo(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	var obs []ledger.Observation
	for s := range 6 {
		o := count(look(float64(s), []*gpu.Process{p}, holds(train, 1)), gpu.Millijoules(69_000*s))
		if s > 2 {
			o = count(look(float64(s), []*gpu.Process{q}, holds(serve, 1)), gpu.Millijoules(69_000*s))
		}
		obs = append(obs, o)
	}
	after := look(6, []*gpu.Process{q}, holds(serve, 1))
	b := ask(t, newLedger(), append(obs, count(after, 6*690_000))...)
	late := gpu.Millijoules(6*690_000 - 5*69_000 - 770_000)
	if b.Energy != 6*690_000 || b.Unattributed[gpu.Gap] != late || b.Resets != 0 {
		t.Errorf("%d mJ, %d mJ in gaps, %d resets; want %d, %d, 0", b.Energy, b.Unattributed[gpu.Gap], b.Resets, 6*690_000, late)
	}
}

// A lossy board has a counter that loses energy.
type lossy struct {
	r       *rand.Rand
	now     int
	drawn   float64 // true energy in J since the start
	counter float64 // value of the true counter in J
	shown   float64 // value that the driver reports in J; it differs from counter while the reported value does not change
	// disturbed is the total time in seconds for which the ledger cannot exclude a reset. For each reset, it begins at
	// the last change of the counter before the reset and ends at the first reading after the reset. A time of more
	// than two seconds without a reading also counts if the counter may have restarted in this time.
	disturbed, sinceChange, sinceRead int
	wasReset                          bool
}

func (b *lossy) pass(seconds int) {
	for range seconds {
		power := 50 + 650*b.r.Float64()
		b.now++
		b.drawn += power
		b.counter += power
		b.sinceChange++
		b.sinceRead++
	}
}

func (b *lossy) reset() { b.counter, b.wasReset = 0, true }

func (b *lossy) observe() ledger.Observation {
	if b.wasReset || b.sinceRead > 2 && b.counter <= 700*(float64(b.sinceRead)+0.1) {
		b.disturbed += b.sinceChange
	}
	b.shown, b.sinceChange, b.sinceRead, b.wasReset = b.counter, 0, 0, false
	return count(look(float64(b.now), nil), gpu.Millijoules(b.shown*1000))
}

func (b *lossy) event(l *ledger.Ledger, see func(ledger.Observation)) (restarted bool) {
	for range 3 + b.r.IntN(20) {
		b.pass(1)
		see(b.observe())
	}
	blind := 1 + b.r.IntN(40)
	switch b.r.IntN(7) {
	case 0: // the driver is reloaded; nothing is read for a while before and after the reload
		b.pass(b.r.IntN(blind))
		b.reset()
		b.pass(b.r.IntN(blind))
	case 1: // the counter is reset between two readings
		b.pass(1)
		b.reset()
	case 2: // the exporter is down
		b.pass(blind)
		restarted = true
	case 3: // the counter does not change and may be reset
		for range blind {
			b.pass(1)
			b.sinceRead = 0
			see(count(look(float64(b.now), nil), gpu.Millijoules(b.shown*1000)))
		}
		if b.r.IntN(2) == 0 {
			b.reset()
		}
	case 4: // the counter cannot be read
		for range blind {
			b.pass(1)
			see(unread(look(float64(b.now), nil)))
		}
	case 5: // one reading is wrong
		b.pass(1)
		see(count(look(float64(b.now), nil), 1e12))
	}
	return restarted
}

// Without a reset, the upper bound of uncounted energy must be 0. With resets, it must be at most the maximum power
// times the disturbed time, plus one step of the counter for each event.
func TestUncounted(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			b := &lossy{r: rand.New(rand.NewPCG(seed, 39))}
			b.counter = []float64{0, 1e5, 1e8}[b.r.IntN(3)]
			l := newLedger()
			see := func(o ledger.Observation) {
				l.Observe(o)
				l.Settle(o.At, unresolved)
			}
			see(b.observe())
			events := 1 + b.r.IntN(20)
			for range events {
				if b.event(l, see) {
					l = restarted(t, l)
				}
			}
			for range 3 {
				b.pass(1)
				see(b.observe())
			}
			k := bookOf(l, uuid)
			got, truth, bound := k.Energy.Joules(), b.drawn, k.Uncounted.Joules()
			if got > truth+0.1 || truth > got+bound+0.1 {
				t.Errorf("counted %.1f J, at most %.1f J uncounted, but drawn %.1f J", got, bound, truth)
			}
			if most := 700 * (float64(b.disturbed) + 0.1*float64(events)); bound > most {
				t.Errorf("at most %.1f J uncounted, but the board could have drawn at most %.1f J in the disturbed time", bound, most)
			}
			if b.disturbed == 0 && bound > 0 {
				t.Errorf("%.1f J may be uncounted without a reset", bound)
			}
		})
	}
}

// The integral of power omits times of more than ten seconds without a reading.
func TestUnreadPower(t *testing.T) {
	for unreadable, want := range map[int]gpu.Millijoules{5: 0, 30: 31_100 * 700} {
		var sum gpu.PowerIntegral
		var obs []ledger.Observation
		for s := range 60 {
			o := unread(look(float64(s), nil))
			if s < 10 || s >= 10+unreadable {
				o.Energy = new(sum.Add(300_000, o.At.Boot, 0))
			}
			o.Counter = "power"
			obs = append(obs, o)
		}
		if b := ask(t, newLedger(), obs...); b.Uncounted != want {
			t.Errorf("unreadable for %d s: %d mJ, want %d", unreadable, b.Uncounted, want)
		}
	}
}
