package nvml_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes/nodestate"
)

// If a call always returns after the end of Read, the next Read must return the late result.
func TestLateReading(t *testing.T) {
	const before, call = "nvmlDeviceGetTemperature", "nvmlDeviceGetUtilizationRates" // a reading makes these calls in this order
	clock := gputest.NewClock()
	d := newDriver(t, pair())
	s := d.open(clock.Now)
	gputest.Read(t, s)
	slow := d.node.GPUs[1].Device.UUID
	d.fault(slow, call, "hang")
	report := gputest.Eventually(t, gputest.Hasty(s), "the other GPU is read", func(r gpu.Report, err error) bool { return len(r.Readings) > 0 })
	if len(report.Devices) != 2 || len(report.Readings) != 1 {
		t.Fatalf("%d devices and %d readings while one GPU is late", len(report.Devices), len(report.Readings))
	}
	for range 3 {
		began, calls := clock.Now(), d.calls(call+"\t"+slow)
		d.await(before+"\t"+slow, calls+1) // the reading has a time
		clock.Advance(time.Second)
		d.healed()
		d.await(call+"\t"+slow, calls+1)
		d.fault(slow, call, "hang")
		var late gpu.Reading
		gputest.Eventually(t, gputest.Hasty(s), "the late reading is returned", func(r gpu.Report, err error) bool {
			i := slices.IndexFunc(r.Readings, func(r gpu.Reading) bool { return r.UUID == slow })
			if i >= 0 {
				late = r.Readings[i]
			}
			return i >= 0
		})
		if late.At != began {
			t.Errorf("the late reading has the time %v, but it was taken at %v", late.At, began)
		}
	}
	if n := strings.Count(d.logged.String(), slow); n != 1 {
		t.Errorf("a GPU that remains slow is logged %d times:\n%s", n, &d.logged)
	}
}

// A reading that took too long must be dropped, even if the next reading is also late. The next reading must contain
// the samples of the dropped reading.
func TestStaleReading(t *testing.T) {
	for _, age := range []time.Duration{3 * time.Second, time.Hour} {
		t.Run(age.String(), func(t *testing.T) {
			clock := gputest.NewClock()
			d := newDriver(t, pair())
			s := d.open(clock.Now)
			gputest.Read(t, s)
			d.fault(d.node.GPUs[1].Device.UUID, "nvmlDeviceGetProcessUtilization", "hang")
			began := clock.Now()
			_, _ = gputest.Hasty(s).Read(t.Context())
			clock.Advance(age)
			d.lines = nil
			now := &d.node.GPUs[1].Reading
			d.node.GPUs[1].SampledAt = began.Wall.Add(max(0, age-9*time.Second) + time.Millisecond)
			now.Gauges[gpu.Power], now.Contexts = new(900.0), []gpu.Context{{PID: 77}}
			now.Samples = []gpu.Sample{{PID: 77, SM: 1}}
			d.fault(d.node.GPUs[1].Device.UUID, "nvmlDeviceGetTemperature", "delay:200")
			report := gputest.Eventually(t, gputest.Hasty(s), "the GPU responds again", func(r gpu.Report, err error) bool { return len(r.Readings) == 2 })
			gputest.Check(t, report, d.node)
			if at := report.Readings[1].At; at != clock.Now() {
				t.Errorf("the reading has the time %v, but it is %v now", at, clock.Now())
			}
		})
	}
}

// The samples of a late reading must be reported together with the samples of the next reading.
func TestLateSamples(t *testing.T) {
	const call = "nvmlDeviceGetProcessUtilization"
	clock := gputest.NewClock()
	n := gputest.Node{GPUs: []gputest.GPU{gputest.Full(0)}}
	d := newDriver(t, n)
	s := d.open(clock.Now)
	gputest.Read(t, s)
	clock.Advance(time.Second)
	uuid, began := n.GPUs[0].Device.UUID, clock.Now()
	rows := []string{nodestate.Row(uuid, began.Wall, 7, 1, 0), nodestate.Row(uuid, began.Wall.Add(time.Second), 8, 1, 0)}
	d.lines = rows[:1:1]
	d.fault(anyGPU, call, "delay:200")
	_, _ = gputest.Hasty(s).Read(t.Context())
	d.await(call, d.calls(call)+1)
	clock.Advance(time.Second)
	d.lines = rows
	d.write()
	var got []gpu.Sample
	gputest.Eventually(t, s, "both samples are reported", func(r gpu.Report, err error) bool {
		for _, reading := range r.Readings {
			got = append(got, reading.Samples...)
		}
		return len(got) >= len(rows)
	})
	want := []gpu.Sample{{PID: 7, SM: 1}, {PID: 8, SM: 1}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(gpu.Span{})); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

func TestOpeningHangs(t *testing.T) {
	for _, call := range []string{"nvmlInit", "nvmlSystemGetDriverVersion", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"} {
		t.Run(call, func(t *testing.T) {
			d := newDriver(t, pair())
			d.fault(anyGPU, call, "hang")
			s := d.open(gputest.NewClock().Now)
			hasty := gputest.Hasty(s)
			for range 3 {
				report, err := hasty.Read(t.Context())
				if len(report.Devices) > 0 {
					t.Errorf("devices are reported although the driver is not open: %+v", report.Devices)
				}
				if err == nil && call != "nvmlDeviceGetHandleByIndex" {
					t.Error("no error")
				}
			}
			d.healed()
			gputest.Check(t, gputest.Eventually(t, s, "the driver is open", func(r gpu.Report, err error) bool { return len(r.Readings) == 2 }), d.node)
			if n := d.calls("nvmlInit"); n != 1 {
				t.Errorf("nvmlInit was called %d times", n)
			}
		})
	}
}

// A GPU must not be reported if its calls hang before it could be identified.
func TestStuckFromTheStart(t *testing.T) {
	n := pair()
	n.GPUs[0].Stuck = true
	d := newDriver(t, n)
	s := d.open(gputest.NewClock().Now)
	hasty := gputest.Hasty(s)
	for range 3 {
		report := gputest.Eventually(t, hasty, "the other GPU is read", func(r gpu.Report, err error) bool { return len(r.Readings) == 1 })
		gputest.Check(t, report, gputest.Node{GPUs: n.GPUs[1:]})
	}
	d.change(pair())
	gputest.Check(t, gputest.Eventually(t, s, "the GPU responds", func(r gpu.Report, err error) bool { return len(r.Readings) == 2 }), pair())
}

func TestEverythingHangs(t *testing.T) {
	d := newDriver(t, pair())
	s := d.open(gputest.NewClock().Now)
	gputest.Read(t, s)
	d.fault(anyGPU, "*", "hang")
	if _, err := gputest.Hasty(s).Read(t.Context()); err == nil {
		t.Error("no error")
	}
	d.healed()
	gputest.Check(t, gputest.Eventually(t, s, "the driver responds", func(r gpu.Report, err error) bool { return len(r.Readings) == 2 }), d.node)
}

// The driver is reloaded during a stuck call. The program must not shut the driver down or open it a second time, and
// Read must return an error with the reason. When the call returns, the program must read again.
func TestReloadUnderAStuckCall(t *testing.T) {
	d := newDriver(t, pair())
	s := d.open(gputest.NewClock().Now)
	gputest.Read(t, s)
	d.fault(d.node.GPUs[0].Device.UUID, "nvmlDeviceGetTemperature", "hang")
	hasty := gputest.Hasty(s)
	_, _ = hasty.Read(t.Context())
	d.node.Loads++
	d.write()
	gputest.Eventually(t, hasty, "it waits", func(_ gpu.Report, err error) bool {
		return err != nil && strings.Contains(err.Error(), "open driver: waiting until a stuck driver call returns")
	})
	if inits, shutdowns := d.calls("nvmlInit"), d.calls("nvmlShutdown"); inits != 1 || shutdowns != 0 {
		t.Errorf("during the stuck call there were %d more calls of nvmlInit and %d of nvmlShutdown", inits-1, shutdowns)
	}
	d.healed()
	gputest.Check(t, gputest.Eventually(t, s, "the driver responds", func(r gpu.Report, err error) bool { return err == nil && len(r.Readings) == 2 }), d.node)
	if inits, shutdowns := d.calls("nvmlInit"), d.calls("nvmlShutdown"); inits != 2 || shutdowns != 1 {
		t.Errorf("there were %d calls of nvmlInit and %d of nvmlShutdown, want 2 and 1", inits, shutdowns)
	}
}

func TestClose(t *testing.T) {
	d := newDriver(t, pair())
	s := d.open(gputest.NewClock().Now)
	gputest.Read(t, s)
	if err := s.Close(time.Minute); err != nil {
		t.Error(err)
	}
	if n := d.calls("nvmlShutdown"); n != 1 {
		t.Errorf("nvmlShutdown was called %d times", n)
	}
	if err := s.Close(0); err != nil {
		t.Error("closed twice:", err)
	}
}

func TestCloseUnderAStuckCall(t *testing.T) {
	d := newDriver(t, pair())
	s := d.open(gputest.NewClock().Now)
	gputest.Read(t, s)
	d.fault(d.node.GPUs[0].Device.UUID, "*", "hang")
	_, _ = gputest.Hasty(s).Read(t.Context())
	if err := s.Close(time.Millisecond); err == nil {
		t.Error("no error")
	}
	if n := d.calls("nvmlShutdown"); n != 0 {
		t.Errorf("nvmlShutdown was called %d times during a stuck call", n)
	}
	if _, err := s.Read(t.Context()); err == nil {
		t.Error("a closed source was read")
	}
}
