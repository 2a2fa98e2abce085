package ledger_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// The GPU was busy for 20 % of a second and drew 180 W, but no sample names a process. Two pods hold the GPU. The idle
// power is 100 W, so 80 J are idle energy and 100 J are busy energy.
func TestWorkThatNoSampleNames(t *testing.T) {
	const idle, busy = 80_000, 100_000
	halves := []gpu.ByMethod{{gpu.Allocated: (idle + busy) / 2}, {gpu.Allocated: (idle + busy) / 2}}
	for _, tt := range []struct {
		name      string
		before    func(*meter)
		processes []*gpu.Process
		want      []gpu.ByMethod // energy of train and of serve
	}{
		{
			"one worked a second ago", func(m *meter) { m.draw(400, both, worked(ofTrain, 500)) }, both,
			[]gpu.ByMethod{{gpu.Allocated: idle / 2, gpu.Shared: busy}, {gpu.Allocated: idle / 2}},
		},
		{
			"one worked three times as much", func(m *meter) { m.draw(400, both, worked(ofTrain, 600), worked(ofServe, 200)) }, both,
			[]gpu.ByMethod{{gpu.Allocated: idle / 2, gpu.Shared: busy * 3 / 4}, {gpu.Allocated: idle / 2, gpu.Shared: busy / 4}},
		},
		{
			"the other worked since then", func(m *meter) {
				m.draw(400, both, worked(ofTrain, 500))
				for range 10 * 60 {
					m.draw(400, both, worked(ofServe, 500))
				}
			}, both,
			[]gpu.ByMethod{{gpu.Allocated: idle / 2}, {gpu.Allocated: idle / 2, gpu.Shared: busy}},
		},
		{
			"one worked long ago", func(m *meter) {
				m.draw(400, both, worked(ofTrain, 500))
				m.rest(100, 15*60)
			}, both, halves,
		},
		{"none worked", func(*meter) {}, both, halves},
		{
			"the worker has no process", func(m *meter) {
				m.draw(400, both, worked(ofTrain, 500))
				m.rest(100, 3)
				m.draw(100, both[1:])
			}, both[1:], halves,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMeter(t)
			m.rest(100, 7)
			tt.before(m)
			before := m.draw(100, tt.processes).Accounts
			m.unnamed = 0.2
			after := m.draw(180, tt.processes)
			for i, want := range tt.want {
				got := after.Accounts[i].Energy
				for method := range got {
					got[method] -= before[i].Energy[method]
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", after.Accounts[i].Name, diff)
				}
				if added := after.Accounts[i].Busy - before[i].Busy; added != 0 {
					t.Errorf("%s was busy for %v without a sample", after.Accounts[i].Name, added)
				}
			}
		})
	}
}

// While the idle power is an estimate, the energy of work without a sample must count as estimated. The settled
// interval must contain the source of the busy share.
func TestUnnamedWorkIsEstimated(t *testing.T) {
	m := newMeter(t)
	m.l = ledger.New(ledger.Config{Tick: time.Second, Retention: time.Minute, Explain: ledger.Explain{Period: time.Hour, Bytes: 1 << 20}})
	m.draw(0, both)
	m.limit = 700
	before := m.draw(400, both, worked(ofTrain, 500)).Estimated
	m.unnamed = 0.2
	after := m.draw(180, both)
	if got := after.Estimated - before; got != 180_000 {
		t.Errorf("%d mJ are counted as estimated, want 180000", got)
	}
	var last gpu.Interval
	for iv := range m.l.State().Books[uuid].Intervals {
		last = iv
	}
	if last.Busy != 0.2 || last.BusySource != gpu.BusyUtilization {
		t.Errorf("the interval was busy for %v according to %v, want 0.2, utilisation", last.Busy, last.BusySource)
	}
}

// An AMD GPU was busy for 20 % of a second, but no process used it at the moment of the reading. In earlier seconds,
// the readings found train once while the GPU was busy for 20 % of the time, and serve once while the GPU was busy for
// 80 % of the time. For each second with train, there are four seconds in which train worked but the reading missed it.
// For each second with serve, there is only a quarter of a second. So train did four fifths of the missed work.
func TestWorkAtNoMoment(t *testing.T) {
	for _, tt := range []struct {
		name         string
		seen         bool
		processes    []*gpu.Process
		train, serve float64 // busy energy in joules
	}{
		{"both were seen", true, both, 80, 20},
		{"one has ended", true, both[1:], 0, 100},
		{"none was seen", false, both, 50, 50},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMeter(t)
			m.rest(100, 7)
			if m.weighted = true; tt.seen {
				m.draw(400, both, worked(ofTrain, 200))
				m.draw(400, both, worked(ofServe, 800))
			}
			m.rest(100, 1)
			before := m.draw(100, tt.processes).Accounts
			m.unnamed = 0.2
			after := m.draw(180, tt.processes).Accounts
			for i, want := range []float64{tt.train, tt.serve} {
				got := (after[i].Energy.Sum() - before[i].Energy.Sum()).Joules()
				if want += 40; math.Abs(got-want) > 1 { // both pods hold the GPU, so each pays half of the 80 J of idle energy
					t.Errorf("%s is charged %.1f J, want %.0f J", after[i].Name, got, want)
				}
			}
		})
	}
}
