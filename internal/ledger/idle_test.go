package ledger_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// A meter passes one observation a second to a ledger, of a GPU whose power the test chooses.
type meter struct {
	t       *testing.T
	l       *ledger.Ledger
	seconds float64
	counter gpu.Millijoules
}

func newMeter(t *testing.T) *meter {
	m := &meter{t: t, l: newLedger()}
	m.draw(0, nil)
	return m
}

// draw adds a second in which the GPU draws the power w and processes are active.
func (m *meter) draw(w gpu.Watts, processes []*gpu.Process, activity ...ledger.Activity) *gpu.Book {
	m.t.Helper()
	o := look(m.seconds, processes, holds(train, 2), holds(serve, 2))
	o.Model = "AMD Instinct MI300X OAM"
	m.counter += gpu.Millijoules(w * 1000)
	o.Energy, o.Utilization, o.Activity = new(m.counter), new(0.0), activity
	if len(activity) > 0 {
		o.Utilization = new(0.5)
	}
	m.seconds++
	return ask(m.t, m.l, o)
}

// rest adds seconds with open contexts and without work.
func (m *meter) rest(w gpu.Watts, seconds int) *gpu.Book {
	m.t.Helper()
	var b *gpu.Book
	for range seconds {
		b = m.draw(w, both)
	}
	return b
}

var (
	ofTrain, ofServe = process(21, in(train)), process(31, in(serve))
	both             = []*gpu.Process{ofTrain, ofServe}
)

// TestIdlePower checks that idle power is learnt while contexts are open and nothing runs, and that
// it changes slowly.
func TestIdlePower(t *testing.T) {
	m := newMeter(t)
	if b := m.rest(100, 5); b.IdlePower != 0 {
		t.Errorf("idle power %v W after five seconds, of which the first is not settled; want 0", b.IdlePower)
	}
	if b := m.rest(100, 1); b.IdlePower != 100 {
		t.Errorf("idle power %v W, want 100", b.IdlePower)
	}
	m.rest(300, 2) // kernels that no sample shows
	if b := m.rest(100, 3); b.IdlePower != 100 {
		t.Errorf("idle power %v W after two higher readings of five, want 100", b.IdlePower)
	}
	b := m.rest(60, 5)
	if b.IdlePower != 95 {
		t.Errorf("idle power %v W after five seconds at 60 W, want 95", b.IdlePower)
	}
	if b = m.rest(60, 300); math.Abs(float64(b.IdlePower)-60) > 1 {
		t.Errorf("idle power %v W after five minutes at 60 W, want about 60", b.IdlePower)
	}
	if b = m.rest(80, 300); math.Abs(float64(b.IdlePower)-80) > 1 {
		t.Errorf("idle power %v W after five minutes at 80 W, want about 80", b.IdlePower)
	}
	for range 20 {
		b = m.draw(30, nil) // no context: the GPU saves power
	}
	if math.Abs(float64(b.IdlePower)-80) > 1 {
		t.Errorf("idle power %v W after time without contexts, want about 80", b.IdlePower)
	}
	for range 20 {
		b = m.draw(400, both, worked(ofTrain, 900))
	}
	if math.Abs(float64(b.IdlePower)-80) > 1 {
		t.Errorf("idle power %v W after work, want about 80", b.IdlePower)
	}
}

// TestIdlePowerSurvives checks that idle power is saved and restored.
func TestIdlePowerSurvives(t *testing.T) {
	m := newMeter(t)
	m.rest(100, 7)
	var saved ledger.Builder
	for r := range m.l.State().Records() {
		data, err := json.Marshal(r)
		var read ledger.Record
		if err := errors.Join(err, json.Unmarshal(data, &read), saved.Add(read)); err != nil {
			t.Fatal(err)
		}
	}
	m.l = ledger.Restore(ledger.Config{Tick: time.Second, Retention: time.Minute}, saved.State)
	if b := m.rest(150, 1); b.IdlePower != 100 {
		t.Errorf("idle power %v W after a restart, want 100", b.IdlePower)
	}
}

// TestTwoParts checks that the idle part goes to the holders and the busy part to the active
// processes.
func TestTwoParts(t *testing.T) {
	tests := []struct {
		name     string
		watts    gpu.Watts
		activity []ledger.Activity
		want     []gpu.ByMethod // train, serve
		idle     []gpu.Millijoules
	}{
		{
			"one works for half of the time", 300,
			[]ledger.Activity{worked(ofTrain, 500)},
			[]gpu.ByMethod{{gpu.Shared: 250_000, gpu.Allocated: 25_000}, {gpu.Allocated: 25_000}},
			[]gpu.Millijoules{25_000, 25_000},
		},
		{
			"both work, and one more", 300,
			[]ledger.Activity{worked(ofTrain, 600), worked(ofServe, 200)},
			[]gpu.ByMethod{{gpu.Shared: 210_000, gpu.Allocated: 10_000}, {gpu.Shared: 70_000, gpu.Allocated: 10_000}},
			[]gpu.Millijoules{10_000, 10_000},
		},
		{
			"saturated", 500,
			[]ledger.Activity{worked(ofTrain, 700), worked(ofServe, 300)},
			[]gpu.ByMethod{{gpu.Shared: 350_000}, {gpu.Shared: 150_000}},
			[]gpu.Millijoules{0, 0},
		},
		{
			"less than the idle power", 20,
			[]ledger.Activity{worked(ofTrain, 100)},
			[]gpu.ByMethod{{gpu.Allocated: 10_000}, {gpu.Allocated: 10_000}},
			[]gpu.Millijoules{10_000, 10_000},
		},
		{
			"no activity", 120, nil,
			[]gpu.ByMethod{{gpu.Allocated: 60_000}, {gpu.Allocated: 60_000}},
			[]gpu.Millijoules{60_000, 60_000},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMeter(t)
			before := *m.rest(100, 7)
			after := m.draw(tt.watts, both, tt.activity...)
			for i := range tt.want {
				was, is := before.Accounts[i], after.Accounts[i]
				for method := range is.Energy {
					is.Energy[method] -= was.Energy[method]
				}
				if diff := cmp.Diff(tt.want[i], is.Energy); diff != "" || is.Idle-was.Idle != tt.idle[i] {
					t.Errorf("%s: idle %d mJ, want %d; energy (-want +got):\n%s", is.Name, is.Idle-was.Idle, tt.idle[i], diff)
				}
			}
		})
	}
}

// TestGuess checks the division before idle power is learnt. Two processes that do equal work at
// different times pay nearly the same, although no reading shows the GPU at rest.
func TestGuess(t *testing.T) {
	m := newMeter(t)
	var b *gpu.Book
	for s := range 600 { // 70 W and 300 W of work: train 0.1 s each second, serve 0.9 s each tenth
		if s%10 == 0 {
			b = m.draw(400, both, worked(ofTrain, 100), worked(ofServe, 900))
		} else {
			b = m.draw(100, both, worked(ofTrain, 100))
		}
	}
	if part := b.Accounts[0].Energy.Sum().Joules() / b.Energy.Joules(); math.Abs(part-0.5) > 0.03 {
		t.Errorf("train pays %.3f of the energy, want about 0.5", part)
	}
}

// TestPeers checks that the idle power of a GPU that is never idle is estimated from GPUs of its
// model: from a learned power, else from the power at rest if it is more than an eighth of the power
// limit.
func TestPeers(t *testing.T) {
	const model, work = "AMD Instinct MI300X OAM", 0.5
	for _, tt := range []struct {
		name  string
		peer  string // the other GPU's model
		watts gpu.Watts
		open  bool // whether it has contexts
		want  gpu.Watts
	}{
		{"at rest without contexts", model, 140, false, 140},
		{"at rest below an eighth of the limit", model, 60, false, 700.0 / 8},
		{"learned", model, 150, true, 150},
		{"learned below an eighth of the limit", model, 60, true, 60},
		{"another model", "AMD Instinct MI210", 140, true, 700.0 / 8},
		{"unknown model", "", 140, true, 700.0 / 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMeter(t)
			var before, after *gpu.Book
			for s := range 20 {
				o := look(float64(s), nil)
				o.UUID, o.Model = "peer", tt.peer
				o.Energy, o.Utilization = new(gpu.Millijoules(float64(s)*float64(tt.watts)*1000)), new(0.0)
				if tt.open {
					o.Processes = both
				}
				m.l.Observe(o)
				b := m.draw(300, both, worked(ofTrain, work*1000))
				before, after = after, b
			}
			got := after.Accounts[0].Idle + after.Accounts[1].Idle - before.Accounts[0].Idle - before.Accounts[1].Idle
			if want := gpu.Millijoules(float64(tt.want) * (1 - work) * 1000); got != want {
				t.Errorf("idle part is %d mJ, want %d", got, want)
			}
		})
	}
}

// TestAdminAccess checks that a pod whose claim only gives access to another pod's GPU pays nothing
// while the other pod uses it. Pods that share a claim hold it together.
func TestAdminAccess(t *testing.T) {
	claims := func(first, second string, w gpu.Owner) []gpu.Allocation {
		owned, other := holds(train, 1), holds(w, 1)
		owned.Claim, other.Claim = first, second
		return []gpu.Allocation{owned, other}
	}
	mate := gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml", Name: "mate-0", UID: "uid-mate", Part: "main"}
	tests := []struct {
		name      string
		processes []*gpu.Process
		held      []gpu.Allocation
		want      amounts
	}{
		{"a monitor", both[:1], claims("train-gpu", "watch-all", serve), amounts{"energy": 300_000, "train exclusive": 300_000}},
		{"no process", nil, claims("train-gpu", "watch-all", serve), amounts{"energy": 300_000, "train allocated": 150_000, "serve allocated": 150_000}},
		{"one claim of two pods", both[:1], claims("ours", "ours", mate), amounts{"energy": 300_000, "train allocated": 150_000, "mate allocated": 150_000}},
		{"claims of that name in two namespaces", both[:1], claims("gpu", "gpu", serve), amounts{"energy": 300_000, "train exclusive": 300_000}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := ask(t, newLedger(), look(0, tt.processes, tt.held...), look(1, tt.processes, tt.held...))
			if diff := cmp.Diff(tt.want, amountsOf(b)); diff != "" {
				t.Errorf("amounts (-want +got):\n%s", diff)
			}
		})
	}
}
