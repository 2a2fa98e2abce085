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

// A meter passes one observation per second to a ledger.
type meter struct {
	t       *testing.T
	l       *ledger.Ledger
	seconds float64
	counter gpu.Millijoules
	// Each observation of the meter contains limit, quiet, stored, configured and sampled.
	limit, quiet, stored, configured gpu.Watts
	sampled                          bool
	// The meter reports the value of utilization if a sample names a process. Otherwise it reports the value of
	// unnamed.
	utilization, unnamed float64
	// weighted is set if the driver reports only the processes that work at the moment of the reading. Without such a
	// process, the activity is then unknown.
	weighted bool
}

func newMeter(t *testing.T) *meter {
	m := &meter{t: t, l: newLedger(), utilization: 0.5}
	m.draw(0, nil)
	return m
}

// draw adds a second in which the GPU draws the power w.
func (m *meter) draw(w gpu.Watts, processes []*gpu.Process, activity ...ledger.Activity) *gpu.Book {
	m.t.Helper()
	o := look(m.seconds, processes, holds(train, 2), holds(serve, 2))
	o.Model, o.PowerLimit = "AMD Instinct MI300X OAM", m.limit
	o.QuietSampled, o.QuietPower, o.StoredIdlePower, o.ConfiguredIdlePower = m.sampled, m.quiet, m.stored, m.configured
	m.counter += gpu.Millijoules(w * 1000)
	o.Energy, o.Utilization, o.Activity = new(m.counter), new(m.unnamed), activity
	if len(activity) > 0 {
		o.Utilization = new(m.utilization)
	}
	o.ActivityWeighted, o.ActivityKnown = m.weighted, !m.weighted || len(activity) > 0 || m.unnamed == 0
	m.seconds++
	return ask(m.t, m.l, o)
}

// In each added second, processes have contexts but do not work.
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

func (m *meter) want(b *gpu.Book, watts, tolerance float64, when string) {
	m.t.Helper()
	if math.Abs(float64(b.IdlePower)-watts) > tolerance {
		m.t.Errorf("idle power %v W %s, want %v", b.IdlePower, when, watts)
	}
}

// The idle power is known after three measurements. Each measurement needs two consecutive quiet intervals. There may
// be work between the measurements.
func TestIdlePower(t *testing.T) {
	m := newMeter(t)
	m.want(m.rest(92, 4), 0, 0, "after two measurements")
	for range 5 {
		m.draw(400, both, worked(ofTrain, 900))
		m.want(m.rest(250, 1), 0, 0, "after one quiet second, in which the power may still fall")
	}
	m.want(m.rest(90, 1), 90, 0, "after three measurements")
}

// The idle power must follow a change of the hardware within an hour. It must not change because of work without
// samples, or because of a few minutes of low power.
func TestIdlePowerMoves(t *testing.T) {
	const minute = 60
	m := newMeter(t)
	m.want(m.rest(100, 61*minute), 100, 0, "after an hour at 100 W")
	m.want(m.rest(150, 30*minute), 100, 0, "after half an hour at more power")
	m.want(m.rest(100, 40*minute), 100, 0, "after 40 minutes at 100 W again")
	m.want(m.rest(60, 10*minute), 100, 0, "after ten minutes at 60 W")
	m.want(m.rest(60, 5*minute), 60, 0, "after 15 minutes at 60 W")
	m.want(m.rest(80, 56*minute), 80, 0, "after an hour at 80 W")
	var b *gpu.Book
	for range 60 * minute {
		b = m.draw(30, nil) // without a context, the GPU saves power
	}
	m.want(b, 80, 0, "after an hour without contexts")
	for range 60 * minute {
		b = m.draw(400, both, worked(ofTrain, 900))
	}
	m.want(b, 80, 0, "after an hour of work")
}

// If the driver provides power samples, the ledger must not learn from quiet intervals. In a quiet interval the process
// samples show no work, but they can miss short work.
func TestQuietIntervalsBesidePowerSamples(t *testing.T) {
	m := newMeter(t)
	m.sampled = true
	m.want(m.rest(116, 60), 0, 0, "after a minute in which no sample showed the work")
	m.quiet = 110
	m.want(m.rest(116, 10), 110, 0, "after gaps")
}

// An interval with work in 1 % of its time must not count as idle.
func TestSlightWork(t *testing.T) {
	m := newMeter(t)
	var b *gpu.Book
	for range 60 {
		b = m.draw(116, both, worked(ofTrain, 10))
	}
	m.want(b, 0, 0, "after a minute of 1 % work")
}

// The ledger also learns from quiet times inside busy intervals.
func TestIdlePowerOfGaps(t *testing.T) {
	m := newMeter(t)
	m.quiet = 60 // contexts were open for a part of the interval
	b := m.rest(400, 1)
	for i := range 10 {
		if m.quiet = 0; i%2 == 0 {
			m.quiet = gpu.Watts(110 + i)
		}
		b = m.draw(400, both, worked(ofTrain, 500))
	}
	m.want(b, 112, 0, "after gaps with 110, 112, 114, 116 and 118 W")
}

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
	m.want(m.rest(150, 200), 100, 0, "after three minutes at another power")
	m.want(m.rest(150, 3600), 150, 0, "after an hour at another power")
}

// The holders must pay for the idle energy, and the active processes must pay for the busy energy.
func TestTwoParts(t *testing.T) {
	tests := []struct {
		name     string
		watts    gpu.Watts
		activity []ledger.Activity
		want     []gpu.ByMethod // energy of train and of serve
		idle     []gpu.Millijoules
	}{
		{
			"one works for half of the time", 300,
			[]ledger.Activity{worked(ofTrain, 500)},
			[]gpu.ByMethod{{gpu.Shared: 250_000, gpu.Allocated: 25_000}, {gpu.Allocated: 25_000}},
			[]gpu.Millijoules{25_000, 25_000},
		},
		{
			"both work, one of them longer", 300,
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
