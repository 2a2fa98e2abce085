package nvml_test

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/nvml"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// shortTimeout is a call timeout for tests that let calls hang by the dozen, and
// wait for what is late.
const shortTimeout = 50 * time.Millisecond

// impatient is open with a short call timeout.
func (d *driver) impatient(now gpu.Clock) *nvml.Source {
	log := slog.New(slog.DiscardHandler)
	s := nvml.New(nvml.Config{
		LibraryPath: libraryPath, CallTimeout: shortTimeout, Now: now, Log: log, Stages: stage.New(log, now),
	})
	d.t.Cleanup(func() {
		d.healed()
		if err := s.Close(time.Minute); err != nil {
			d.t.Error(err)
		}
	})
	return s
}

// bounded reads, and fails the test if that took too long.
func bounded(t *testing.T, s *nvml.Source) (gpu.Report, error) {
	t.Helper()
	began := time.Now()
	report, err := s.Read(t.Context())
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("Read took %v", took)
	}
	return report, err
}

// TestCallHangs lets each call on one GPU of eight hang, first and later. The seven
// others are read on, the one has no reading, and it has one again when the call
// returns.
func TestCallHangs(t *testing.T) {
	for name, call := range calls {
		if call.gpu == none {
			continue
		}
		t.Run(name, func(t *testing.T) {
			clock := gputest.NewClock()
			d := newDriver(t, eight())
			uuid := d.node.GPUs[call.gpu].Device.UUID
			s := d.impatient(clock.Now)
			if call.first != nil {
				d.fault(uuid, name, "hang")
				d.readOn(s, call.gpu)
				d.healed()
			}
			checkEight(t, "healed", gputest.Eventually(t, s, "it answers", complete), none, nothing)
			if call.later == nil {
				return
			}
			clock.Advance(time.Second)
			d.fault(uuid, name, "hang")
			d.readOn(s, call.gpu)
			d.healed()
			checkEight(t, "healed again", gputest.Eventually(t, s, "it answers again", complete), none, nothing)
		})
	}
}

// TestCallHangsEverywhere lets each call hang on all GPUs. Nobody waits for them, what
// answers in time is true, and all of it is back when the calls return.
func TestCallHangsEverywhere(t *testing.T) {
	for name, call := range calls {
		if call.gpu == none || call.later == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			clock := gputest.NewClock()
			d := newDriver(t, eight())
			s := d.impatient(clock.Now)
			checkEight(t, "well", gputest.Eventually(t, s, "it answers", complete), none, nothing)
			clock.Advance(time.Second)
			d.fault(anyGPU, name, "hang")
			for range 3 {
				report, _ := bounded(t, s)
				if slices.ContainsFunc(report.Readings, func(r gpu.Reading) bool { return r.UUID == d.node.GPUs[call.gpu].Device.UUID }) {
					t.Error("a GPU whose call hangs has a reading")
				}
			}
			d.healed()
			checkEight(t, "healed", gputest.Eventually(t, s, "it answers again", complete), none, nothing)
		})
	}
}

// readOn reads until every GPU but the hung one was read anew twice.
func (d *driver) readOn(s *nvml.Source, hung int) {
	d.t.Helper()
	for range 2 {
		for i := range d.node.GPUs {
			*d.node.GPUs[i].Reading.Energy += 1000
		}
		d.write()
		fresh := make(map[string]bool)
		for deadline := time.Now().Add(20 * time.Second); len(fresh) < 7; {
			report, _ := bounded(d.t, s) // opening may be late, too
			for _, r := range report.Readings {
				i := slices.IndexFunc(d.node.GPUs, func(g gputest.GPU) bool { return g.Device.UUID == r.UUID })
				fresh[r.UUID] = fresh[r.UUID] || *r.Energy == *d.node.GPUs[i].Reading.Energy
			}
			if fresh[d.node.GPUs[hung].Device.UUID] {
				d.t.Fatal("the GPU whose call hangs has a reading")
			}
			if time.Now().After(deadline) {
				d.t.Fatalf("of the others only %d are read on", len(fresh))
			}
		}
	}
	d.node = eight()
	d.write()
}
