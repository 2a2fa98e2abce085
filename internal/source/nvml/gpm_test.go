package nvml_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// working returns a GPU in MIG mode with active instances, and a GPU that is not in MIG mode.
func working() gputest.Node {
	return gputest.Node{GPUs: []gputest.GPU{gputest.Busy(0), gputest.Full(1)}}
}

// readWorking reports whether the activity of the instances is known. The rest of the report must match the node.
func readWorking(t *testing.T, s gputest.Source, clock *gputest.Clock, n gputest.Node) bool {
	t.Helper()
	clock.Advance(time.Second)
	report := gputest.Read(t, s)
	gputest.Check(t, report, n)
	return report.Readings[0].InstancesKnown
}

// If GPM fails or returns impossible values, the activity of the instances must be unknown until there are two valid
// samples.
func TestInstancesUnknown(t *testing.T) {
	n := working()
	uuid := n.GPUs[0].Device.UUID
	tests := []struct {
		name  string
		spoil func(*driver)
		after int // further readings until the instances are known
	}{
		{"no sample", func(d *driver) { d.fault(uuid, "nvmlGpmMigSampleGet", "fail:999") }, 2},
		{"no metrics", func(d *driver) { d.fault(uuid, "nvmlGpmMetricsGet", "fail:999") }, 1},
		{"only GPM calls return that the GPU is lost", func(d *driver) { d.fault(uuid, "nvmlGpmMigSampleGet", "fail:15") }, 2},
		{"not a number", func(d *driver) { d.fault(uuid, "nvmlGpmMetricsGet", "blank") }, 1},
		{"more than 100 %", func(d *driver) { d.replace("sm=50", "sm=101.5") }, 1},
		{"far more than 100 %", func(d *driver) { d.replace("sm=50", "sm=1e300") }, 1},
		{"less than 0 %", func(d *driver) { d.replace("sm=50", "sm=-0.5") }, 1},
		{"the metric is not supported", func(d *driver) { d.replace("\tsm=50", "") }, 1},
		{"the MIG mode cannot be read", func(d *driver) { d.fault(uuid, "nvmlDeviceGetMaxMigDeviceCount", "fail:999") }, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			clock := gputest.NewClock()
			d := newDriver(t, n)
			s := d.open(clock.Now)
			readWorking(t, s, clock, n)
			readWorking(t, s, clock, n)
			tt.spoil(d)
			clock.Advance(time.Second)
			report := gputest.Read(t, s)
			if r := report.Readings[0]; r.InstancesKnown || len(report.Readings) != 2 || r.Energy == nil {
				t.Errorf("spoilt: %+v", report.Readings)
			}
			d.healed()
			for i := 1; i <= tt.after; i++ {
				if known := readWorking(t, s, clock, n); known != (i == tt.after) {
					t.Errorf("in reading %d after the fault, instances are known: %v", i, known)
				}
			}
		})
	}
}

// The change lasts until the state is written again.
func (d *driver) replace(words, others string) {
	d.t.Helper()
	d.rewrite(func(state string) string {
		if !strings.Contains(state, words) {
			d.t.Fatalf("the state file does not contain %q:\n%s", words, state)
		}
		return strings.Replace(state, words, others, 1)
	})
}

func TestRounding(t *testing.T) {
	clock, n := gputest.NewClock(), working()
	d := newDriver(t, n)
	s := d.open(clock.Now)
	gputest.Read(t, s)
	d.replace("sm=100", "sm=100.4")
	if !readWorking(t, s, clock, n) {
		t.Error("instances are unknown")
	}
}

// For each GPU in MIG mode, the program must request once whether the GPU supports GPM. No samples may be requested
// from GPUs without GPM.
func TestGPMIsAskedOnce(t *testing.T) {
	for name, calls := range map[string]map[string]int{
		"":       {"nvmlGpmQueryDeviceSupport": 1, "nvmlGpmSampleAlloc": 4, "nvmlGpmMigSampleGet": 10, "nvmlGpmMetricsGet": 8},
		"fail:3": {"nvmlGpmQueryDeviceSupport": 1},
		"blank":  {"nvmlGpmQueryDeviceSupport": 1},
	} {
		t.Run("support "+name, func(t *testing.T) {
			clock, n := gputest.NewClock(), working()
			d := newDriver(t, n)
			if name != "" {
				d.fault(anyGPU, "nvmlGpmQueryDeviceSupport", name)
			}
			s := d.open(clock.Now)
			for range 5 {
				readWorking(t, s, clock, n)
			}
			got := make(map[string]int)
			for line := range strings.Lines(d.log()) {
				if f := strings.Split(line, "\t"); strings.HasPrefix(f[1], "nvmlGpm") {
					got[f[1]]++
				}
			}
			if diff := cmp.Diff(calls, got); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// Every allocated sample buffer must be freed exactly once, and no buffer may be freed after the driver was shut down.
func TestBuffersAreFreed(t *testing.T) {
	changes := map[string]func(*gputest.Node){
		"nothing":     func(*gputest.Node) {},
		"not divided": func(n *gputest.Node) { n.GPUs[0] = gputest.Full(0) },
		"divided otherwise": func(n *gputest.Node) {
			i := &n.GPUs[0].Device.Partitions.Instances[0]
			i.Profile, i.ProfileID, i.Slices = "1g.20gb", 15, 1
		},
		"no instance": func(n *gputest.Node) {
			n.GPUs[0].Device.Partitions.Instances, n.GPUs[0].Reading.Instances, n.GPUs[0].Reading.Contexts = nil, nil, nil
		},
		"lost":     func(n *gputest.Node) { n.GPUs[0].Lost = true },
		"not seen": func(n *gputest.Node) { n.GPUs = n.GPUs[1:] },
		"reloaded": func(n *gputest.Node) { n.Loads++ },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			clock := gputest.NewClock()
			d := newDriver(t, working())
			s := d.open(clock.Now)
			for i := range 3 {
				n := working()
				n.Loads = d.node.Loads
				if i > 0 {
					change(&n)
				}
				for range 3 {
					d.change(n)
					clock.Advance(20 * time.Second) // longer than the pause before a lost GPU is read again
					gputest.Eventually(t, s, "the driver is open", func(_ gpu.Report, err error) bool { return err == nil })
				}
			}
			if err := s.Close(time.Minute); err != nil {
				t.Fatal(err)
			}
			d.wantNoLeak()
		})
	}
}

// Every buffer must be freed in the driver session in which it was allocated.
func (d *driver) wantNoLeak() {
	d.t.Helper()
	held, allocated := 0, 0
	for line := range strings.Lines(d.log()) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		switch f[1] {
		case "nvmlGpmSampleAlloc":
			held, allocated = held+1, allocated+1
		case "nvmlGpmSampleFree":
			held--
			if f[3] != "0" {
				d.t.Errorf("a buffer was freed that is not allocated: %s", line)
			}
		case "nvmlShutdown":
			if held != 0 {
				d.t.Errorf("%d of %d buffers were not freed when the driver was shut down", held, allocated)
			}
			held = 0
		}
	}
	if allocated == 0 || held != 0 {
		d.t.Errorf("%d of %d buffers are not freed", held, allocated)
	}
}

// The first of two buffers must be freed if the second buffer cannot be allocated.
func TestOneBufferOnly(t *testing.T) {
	clock, n := gputest.NewClock(), working()
	d := newDriver(t, n)
	s := d.open(clock.Now)
	d.fault(anyGPU, "nvmlGpmSampleAlloc", "delay:100")
	done := make(chan error)
	go func() {
		_, err := s.Read(t.Context())
		done <- err
	}()
	d.await("nvmlGpmSampleAlloc", 1)
	d.fault(anyGPU, "nvmlGpmSampleAlloc", "fail:20")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	d.await("nvmlGpmSampleFree", 1)
	d.healed()
	for readWorking(t, s, clock, n); !readWorking(t, s, clock, n); {
		if t.Failed() {
			return
		}
	}
}

// The buffers of a stuck call must not be freed, and the driver must not be shut down during the call.
func TestBuffersOfAStuckCall(t *testing.T) {
	clock, n := gputest.NewClock(), working()
	d := newDriver(t, n)
	s := d.open(clock.Now)
	gputest.Read(t, s)
	d.fault(n.GPUs[0].Device.UUID, "nvmlDeviceGetTemperature", "hang")
	_, _ = gputest.Hasty(s).Read(t.Context())
	if err := s.Close(10 * time.Millisecond); err == nil {
		t.Error("the source was closed during a stuck call")
	}
	if n := d.calls("nvmlGpmSampleFree") + d.calls("nvmlShutdown"); n != 0 {
		t.Errorf("%d calls were made during a stuck call", n)
	}
}

// Activity must not be computed from a sample of the previous driver session, or from a sample before the loss of the
// GPU.
func TestInstancesAfterReload(t *testing.T) {
	for name, happen := range map[string]func(*driver, bool){
		"reloaded": func(d *driver, back bool) { d.node.Down, d.node.Loads = !back, 1 },
		"lost":     func(d *driver, back bool) { d.node.GPUs[0].Lost = !back },
	} {
		t.Run(name, func(t *testing.T) {
			clock := gputest.NewClock()
			d := newDriver(t, working())
			s := d.open(clock.Now)
			gputest.Read(t, s)
			happen(d, false)
			d.write()
			_, _ = s.Read(t.Context())
			happen(d, true)
			d.write()
			clock.Advance(time.Second)
			if name == "lost" {
				clock.Advance(9 * time.Second)
			}
			report := gputest.Eventually(t, s, "the GPU responds again", func(r gpu.Report, err error) bool { return err == nil && len(r.Readings) == 2 })
			if r := report.Readings[0]; r.InstancesKnown {
				t.Errorf("instances are known: %+v", r.Instances)
			}
			if !readWorking(t, s, clock, d.node) {
				t.Error("instances are still unknown after the second sample")
			}
		})
	}
}

// If a reading is too late to be used, the next successful reading must contain its activity.
func TestStaleInstances(t *testing.T) {
	for _, call := range []string{"nvmlGpmMetricsGet", "nvmlDeviceGetMaxMigDeviceCount"} {
		t.Run("after "+call, func(t *testing.T) {
			clock, n := gputest.NewClock(), working()
			d := newDriver(t, n)
			s := d.open(clock.Now)
			readWorking(t, s, clock, n)
			readWorking(t, s, clock, n)
			began := clock.Now().Boot
			if call == "nvmlDeviceGetMaxMigDeviceCount" {
				d.fault(anyGPU, call, "fail:999") // no sample of an instance can be taken
			}
			readLate(t, d, s, clock, call)
			clock.Advance(3 * time.Second)
			d.healed()
			report := gputest.Eventually(t, s, "the GPU responds again", func(r gpu.Report, err error) bool { return len(r.Readings) == 2 })
			gputest.Check(t, report, n)
			want := gpu.Span{From: began, To: clock.Now().Boot}
			for _, i := range report.Readings[0].Instances {
				if i.Span != want {
					t.Errorf("the activity of instance %s covers %v, want %v", i.Instance, i.Span, want)
				}
			}
			if !report.Readings[0].InstancesKnown {
				t.Error("instances are unknown")
			}
		})
	}
}

// The reading after a late reading must report the activity of the late reading, even if there are no new samples yet.
func TestLateInstances(t *testing.T) {
	for _, soon := range []time.Duration{50 * time.Millisecond, time.Second} {
		t.Run(soon.String(), func(t *testing.T) {
			clock, n := gputest.NewClock(), working()
			d := newDriver(t, n)
			s := d.open(clock.Now)
			readWorking(t, s, clock, n)
			began := clock.Now().Boot
			readLate(t, d, s, clock, "nvmlGpmMetricsGet")
			middle := clock.Now().Boot
			d.healed()
			clock.Advance(soon)
			report := gputest.Eventually(t, s, "the GPU responds again", func(r gpu.Report, err error) bool {
				return len(r.Readings) == 2 && r.Readings[0].At == clock.Now()
			})
			gputest.Check(t, report, n)
			want := []gpu.InstanceSample{
				{Instance: "2", Span: gpu.Span{From: began, To: middle}, SM: 0.5},
				{Instance: "9", Span: gpu.Span{From: began, To: middle}, SM: 1},
			}
			if soon > 100*time.Millisecond {
				then := gpu.Span{From: middle, To: clock.Now().Boot}
				want = append(want, gpu.InstanceSample{Instance: "2", Span: then, SM: 0.5}, gpu.InstanceSample{Instance: "9", Span: then, SM: 1})
			}
			r := report.Readings[0]
			if diff := cmp.Diff(want, r.Instances); diff != "" || !r.InstancesKnown {
				t.Errorf("instances known: %v (-want +got):\n%s", r.InstancesKnown, diff)
			}
		})
	}
}

// Near the end of the reading, the given call for the first GPU hangs.
func readLate(t *testing.T, d *driver, s gputest.Source, clock *gputest.Clock, call string) {
	t.Helper()
	calls := d.calls(call)
	clock.Advance(time.Second)
	d.fault(d.node.GPUs[0].Device.UUID, "nvmlDeviceGetProcessUtilization", "hang")
	gputest.Eventually(t, gputest.Hasty(s), "the other GPU is read", func(r gpu.Report, _ error) bool { return len(r.Readings) == 1 })
	d.await(call, calls+1)
}
