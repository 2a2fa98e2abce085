package ledger_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// TestEstimates checks which estimate is used for a GPU that is never idle. All energy that an estimate divides must
// count as estimated.
func TestEstimates(t *testing.T) {
	const model, work = "AMD Instinct MI300X OAM", 0.5
	for _, tt := range []struct {
		name                      string
		limit, stored, configured gpu.Watts
		peer                      string // model of the other GPUs
		peerLimit                 gpu.Watts
		watts                     []gpu.Watts // powers of the other GPUs, which are at rest
		want                      gpu.IdlePower
	}{
		{"configured, stored and peers", 750, 120, 130, model, 750, []gpu.Watts{140}, gpu.IdlePower{Power: 130, Source: gpu.IdleConfigured}},
		{"stored and peers", 750, 120, 0, model, 750, []gpu.Watts{140}, gpu.IdlePower{Power: 120, Source: gpu.IdleStored}},
		{"peers", 750, 0, 0, model, 750, []gpu.Watts{140}, gpu.IdlePower{Power: 140, Source: gpu.IdlePeer}},
		{"one of five peers is low", 750, 0, 0, model, 750, []gpu.Watts{20, 141, 142, 143, 144}, gpu.IdlePower{Power: 142, Source: gpu.IdlePeer}},
		{"one of five peers is high", 750, 0, 0, model, 750, []gpu.Watts{141, 142, 143, 144, 600}, gpu.IdlePower{Power: 143, Source: gpu.IdlePeer}},
		{"four peers", 750, 0, 0, model, 750, []gpu.Watts{100, 120, 130, 170}, gpu.IdlePower{Power: 125, Source: gpu.IdlePeer}},
		{"another power limit", 750, 0, 0, model, 500, []gpu.Watts{140}, gpu.IdlePower{Power: 93.75, Source: gpu.IdleLimit}},
		{"another model", 750, 0, 0, "AMD Instinct MI210", 750, []gpu.Watts{140}, gpu.IdlePower{Power: 93.75, Source: gpu.IdleLimit}},
		{"estimate above the lowest power", 4000, 0, 0, "", 4000, nil, gpu.IdlePower{Power: 300, Source: gpu.IdleLimit}},
		{"unknown model", 800, 0, 0, "", 800, []gpu.Watts{140}, gpu.IdlePower{Power: 100, Source: gpu.IdleLimit}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMeter(t)
			m.limit, m.stored, m.configured = tt.limit, tt.stored, tt.configured
			var before, after *gpu.Book
			for s := range 20 {
				for i, w := range tt.watts {
					o := look(float64(s), both)
					o.UUID, o.Model, o.PowerLimit = string(rune('a'+i)), tt.peer, tt.peerLimit
					o.Energy, o.Utilization = new(gpu.Millijoules(float64(s)*float64(w)*1000)), new(0.0)
					m.l.Observe(o)
				}
				before, after = after, m.draw(300, both, worked(ofTrain, work*1000))
			}
			if diff := cmp.Diff(tt.want, after.Floor); diff != "" {
				t.Errorf("idle power (-want +got):\n%s", diff)
			}
			got := after.Accounts[0].Idle + after.Accounts[1].Idle - before.Accounts[0].Idle - before.Accounts[1].Idle
			if want := gpu.Millijoules(float64(tt.want.Power) * (1 - work) * 1000); got != want {
				t.Errorf("idle part is %d mJ, want %d", got, want)
			}
			if got := after.Estimated - before.Estimated; got != 300_000 {
				t.Errorf("%d mJ are counted as estimated, want 300000", got)
			}
			if got := after.Accounts[0].Estimated + after.Accounts[1].Estimated; got != after.Estimated {
				t.Errorf("%d mJ of the accounts are counted as estimated, want %d", got, after.Estimated)
			}
		})
	}
}

// The ledger must not measure the power with contexts in an interval in which contexts open or close. It must also skip
// the next interval.
func TestContextsChange(t *testing.T) {
	m := newMeter(t)
	for range 3 {
		m.draw(40, nil) // contexts were open for a part of the interval
		m.draw(35, nil)
		m.rest(65, 1) // contexts were open for a part of the interval
		m.rest(80, 1)
		m.rest(90, 1)
	}
	m.want(m.rest(90, 1), 90, 0, "after the third second with contexts, three times")
}

// One holder works for a share of each second, and another holder is idle. The power limit is 700 W. The estimate
// implies a power of the work, which must be above 0 W and at most the limit. An estimate that is too high or too low
// charges some energy to the wrong holder. On average over all idle powers and kinds of work, this energy must be
// small.
func TestEstimateBesideWork(t *testing.T) {
	const limit = 700
	var worst, sum, count float64
	for _, idle := range []float64{60, 70, 90, 110, 130} {
		for _, work := range []float64{20, 60, 100, 150, 200, 300, 400, 500} { // power of the work, in addition to the idle power
			for _, share := range []float64{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7} {
				got, power := estimateBesideWork(t, idle, work, share, limit), idle+share*work
				if least := (power - share*limit) / (1 - share); got < least-0.5 || got > power+0.5 {
					t.Errorf("%v W, %v %% work of %v W: estimated idle power %.1f, want %.1f to %.1f W", idle, 100*share, work, got, least, power)
				}
				wrong := math.Abs(got-idle) * (1 - share) / power / 2
				worst, sum, count = max(worst, wrong), sum+wrong, count+1
			}
		}
	}
	t.Logf("energy in the wrong account: mean %.1f %%, maximum %.1f %%", 100*sum/count, 100*worst)
	if mean := sum / count; mean > 0.03 || worst > 0.13 {
		t.Errorf("energy in the wrong account: mean %.1f %%, maximum %.1f %%; want at most 3 and 13 %%", 100*mean, 100*worst)
	}
}

// estimateBesideWork returns the estimated idle power after some minutes. The measured power alternates between two
// values, because the counter increases in steps.
func estimateBesideWork(t *testing.T, idle, work, share, limit float64) float64 {
	m := newMeter(t)
	m.limit, m.sampled, m.utilization = gpu.Watts(limit), true, share // no interval counts as quiet
	var b *gpu.Book
	for s := range 130 {
		b = m.draw(gpu.Watts(idle+share*work+8*(float64(s%2)-0.5)), both, worked(ofTrain, time.Duration(1000*share)))
	}
	if b.Floor.Source != gpu.IdleLimit {
		t.Errorf("idle power %v, want an estimate from the power limit", b.Floor)
	}
	return float64(b.Floor.Power)
}

// With little work, the estimate must be close to the true idle power, even if the power of the work is high.
func TestLittleWork(t *testing.T) {
	for _, idle := range []float64{40, 70, 110, 200} {
		for _, work := range []float64{50, 300, 700 - idle} {
			if got := estimateBesideWork(t, idle, work, 0.005, 700); math.Abs(got-idle) > 3 {
				t.Errorf("0.5 %% work of %v W: idle power %.1f, want %v W", work, got, idle)
			}
		}
	}
}

// The ledger must choose the minutes with the least work by utilisation, because the samples of processes can miss
// work.
func TestQuietestMinutes(t *testing.T) {
	m := newMeter(t)
	m.limit, m.sampled = 700, true
	var b *gpu.Book
	for minute := range 20 {
		share := 0.5
		if minute%10 < 3 {
			share = 0.01
		}
		m.utilization = share
		for range 60 {
			b = m.draw(gpu.Watts(110+share*400), both, worked(ofTrain, time.Duration(1000*share)))
		}
	}
	m.estimates(b, 110, 3, "with three quiet minutes of ten")

	m = newMeter(t)
	m.limit, m.sampled = 700, true
	for range 300 {
		b = m.draw(110+0.5*400, both, worked(ofTrain, 10))
	}
	m.estimates(b, 110, 25, "while samples show 1 % of 50 % work")
}

func (m *meter) estimates(b *gpu.Book, watts, tolerance float64, when string) {
	m.t.Helper()
	if math.Abs(float64(b.Floor.Power)-watts) > tolerance || b.Floor.Source != gpu.IdleLimit {
		m.t.Errorf("idle power %v %s, want an estimate of %v W", b.Floor, when, watts)
	}
}

// One of seven slices is busy and draws a third of the difference between the power limit and the idle power. The
// estimate must not exceed the true idle power of 110 W.
func TestLightWorkOnInstance(t *testing.T) {
	const idle, limit = 110, 700
	for _, share := range []float64{0.02, 0.1, 0.3} {
		l, counter := newLedger(), 0.0
		for s := range 300 {
			o := onInstance(look(float64(s), []*gpu.Process{ofTrain}, holdsInstance(train, "2")), "2")
			o.PowerLimit, o.QuietSampled = limit, true
			counter += 1000 * (idle + share*(limit-idle)/3 + 8*(float64(s%2)-0.5))
			o.Energy = new(gpu.Millijoules(counter))
			o.Instances = map[string]time.Duration{"2": time.Duration(share * float64(time.Second))}
			o.InstancesKnown = true
			ask(t, l, o)
		}
		if b := bookOf(l, uuid); b.Floor.Power > idle+1 {
			t.Errorf("%v %% work of a slice: idle power %v, want at most %d W", 100*share, b.Floor, idle)
		}
	}
}

// The GPU has an idle power of 70 W. One of its two instances is never idle. Without the activity of the instances, the
// estimate would be an eighth of the limit (87.5 W) or the lowest power. If one instance always works, every power
// below the measured power is a possible idle power.
func TestInstancesNeverIdle(t *testing.T) {
	const idle, limit, work = 70, 700, 200 // W
	for _, tt := range []struct {
		name        string
		share       float64
		least, most gpu.Watts
	}{
		{"slight work", 0.01, idle - 3, idle + 3},
		{"an instance that always works", 1, 70, 100},
	} {
		l, counter := newLedger(), 0.0
		for s := range 300 {
			o := onInstance(look(float64(s), []*gpu.Process{ofTrain}, holdsInstance(train, "2")), "2")
			o.PowerLimit = limit
			counter += 1000 * (idle + tt.share*work)
			o.Energy = new(gpu.Millijoules(counter))
			o.Instances = map[string]time.Duration{"2": time.Duration(tt.share * float64(time.Second))}
			o.InstancesKnown = true
			ask(t, l, o)
		}
		if b := bookOf(l, uuid); b.Floor.Power < tt.least || b.Floor.Power > tt.most {
			t.Errorf("%s: idle power %v, want %v to %v", tt.name, b.Floor, tt.least, tt.most)
		}
	}
}

// The final estimate must be at least the power without contexts. This power is measured on the GPU itself, or it is
// the median of GPUs of the same kind.
func TestAtRestWithoutContexts(t *testing.T) {
	m := newMeter(t)
	m.limit = 800
	var b, p *gpu.Book
	for s := range 10 {
		b = m.draw(140, nil)
		o := look(float64(s), both)
		o.UUID, o.Model, o.PowerLimit = "peer", "AMD Instinct MI300X OAM", 800
		m.l.Observe(o)
		m.l.Settle(o.At, unresolved)
		p = bookOf(m.l, "peer")
	}
	if want := (gpu.IdlePower{Power: 140, Source: gpu.IdleLimit}); b.Floor != want || p.Floor != want {
		t.Errorf("idle power %v, of the peer %v; want %v", b.Floor, p.Floor, want)
	}
}

// Energy must count as estimated if another idle power would change who pays for it.
func TestEstimatedEnergy(t *testing.T) {
	for _, tt := range []struct {
		name      string
		processes []*gpu.Process
		activity  []ledger.Activity
		want      gpu.Millijoules
	}{
		{"one works half of the time, another holds", both, []ledger.Activity{worked(ofTrain, 500)}, 300_000},
		{"saturated", both, []ledger.Activity{worked(ofTrain, 600), worked(ofServe, 400)}, 0},
		{"nothing runs", both, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMeter(t)
			m.limit = 700
			m.draw(300, tt.processes, tt.activity...)
			if b := m.draw(300, tt.processes, tt.activity...); b.Estimated != 2*tt.want {
				t.Errorf("%d mJ are counted as estimated, want %d", b.Estimated, 2*tt.want)
			}
		})
	}
	t.Run("one owner", func(t *testing.T) {
		l := newLedger()
		var b *gpu.Book
		for s := range 3 {
			o := look(float64(s), both[:1], holds(train, 1))
			o.PowerLimit, o.Activity = 700, []ledger.Activity{worked(ofTrain, 500)}
			b = ask(t, l, o)
		}
		if b.Estimated != 0 || b.Floor.Source != gpu.IdleLimit {
			t.Errorf("%d mJ are counted as estimated, with an idle power from the %v; want 0, limit", b.Estimated, b.Floor.Source)
		}
	})
	t.Run("measured", func(t *testing.T) {
		m := newMeter(t)
		m.limit = 700
		m.rest(100, 10)
		if b := m.draw(300, both, worked(ofTrain, 500)); b.Estimated != 0 || b.Floor != (gpu.IdlePower{Power: 100}) {
			t.Errorf("%d mJ are counted as estimated, with an idle power of %v; want 0, 100 W measured", b.Estimated, b.Floor)
		}
	})
}
