package nvml_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/source/nvml"
	"github.com/gpuledger/gpuledger/internal/stage"
)

func watch(t *testing.T, s *nvml.Source) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error("Run:", err)
		}
	})
}

func wantXIDs(t *testing.T, s *nvml.Source, want ...gpu.DriverEvent) {
	t.Helper()
	var got []gpu.DriverEvent
	gputest.Eventually(t, s, "all events were reported", func(r gpu.Report, err error) bool {
		got = append(got, r.Events...)
		return len(got) >= len(want)
	})
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(gpu.DriverEvent{}, "At")); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestXIDs(t *testing.T) {
	d := newDriver(t, pair())
	one, two := d.node.GPUs[0].Device.UUID, d.node.GPUs[1].Device.UUID
	d.add("xid\tgpu=%s\tseq=1\tcode=13", one) // reported before the wait for events began
	s := d.open(gputest.NewClock().Now)
	watch(t, s)
	gputest.Read(t, s)
	d.add("xid\tgpu=%s\tseq=2\tcode=79", two)
	d.add("xid\tgpu=%s\tseq=3\tcode=48", one)
	wantXIDs(t, s, gpu.DriverEvent{UUID: two, Code: 79}, gpu.DriverEvent{UUID: one, Code: 48})

	d.node.Loads++
	d.write()
	gputest.Eventually(t, s, "the driver was reloaded", func(r gpu.Report, err error) bool { return err == nil })
	d.add("xid\tgpu=%s\tseq=4\tcode=31", two)
	wantXIDs(t, s, gpu.DriverEvent{UUID: two, Code: 31})
}

// One of the GPUs supports no events.
func TestXIDRefused(t *testing.T) {
	d := newDriver(t, pair())
	one, two := d.node.GPUs[0].Device.UUID, d.node.GPUs[1].Device.UUID
	d.fault(one, "nvmlDeviceRegisterEvents", "fail:3")
	s := d.open(gputest.NewClock().Now)
	watch(t, s)
	gputest.Read(t, s)
	d.add("xid\tgpu=%s\tseq=1\tcode=63", one)
	d.add("xid\tgpu=%s\tseq=2\tcode=64", two)
	wantXIDs(t, s, gpu.DriverEvent{UUID: two, Code: 64})
}

// A GPU supports events at first, but not after a driver reload.
func TestXIDRefusedLater(t *testing.T) {
	d, clock := newDriver(t, pair()), gputest.NewClock()
	s := d.open(clock.Now)
	if g := gputest.Read(t, s).Devices[0]; !g.ReportsEvents {
		t.Fatalf("device %+v, want events", g)
	}
	n := d.node
	n.Loads++
	d.change(n)
	d.fault(n.GPUs[0].Device.UUID, "nvmlDeviceGetSupportedEventTypes", "fail:3")
	clock.Advance(time.Minute)
	gputest.Eventually(t, s, "the driver responds again without events", func(r gpu.Report, err error) bool {
		return err == nil && len(r.Devices) == 2 && !r.Devices[0].ReportsEvents && r.Devices[1].ReportsEvents
	})
}

func up(d *driver) bool {
	return slices.ContainsFunc(d.stages.Snapshot(), func(s gpu.Stage) bool { return s.Name == string(stage.XID) && s.Up })
}

func TestXIDStage(t *testing.T) {
	for _, fault := range []string{"fail:999", "hang"} {
		t.Run(fault, func(t *testing.T) {
			d := newDriver(t, pair())
			s := d.openWith(time.Second, gputest.NewClock().Now) // the timeout limits a wait for events
			watch(t, s)
			gputest.Eventually(t, s, "the stage is up", func(gpu.Report, error) bool { return up(d) })
			d.fault(anyGPU, "nvmlEventSetWait", fault)
			gputest.Eventually(t, s, "the stage is down", func(gpu.Report, error) bool { return !up(d) })
			d.healed()
			gputest.Eventually(t, s, "the stage is up again", func(gpu.Report, error) bool { return up(d) })
			one := d.node.GPUs[0].Device.UUID
			gputest.Eventually(t, s, "the GPU is registered with the last set", func(gpu.Report, error) bool {
				log := d.log()
				return strings.Contains(log[strings.LastIndex(log, "nvmlEventSetCreate"):], "nvmlDeviceRegisterEvents\t"+one)
			})
			d.add("xid\tgpu=%s\tseq=1\tcode=79", one)
			wantXIDs(t, s, gpu.DriverEvent{UUID: one, Code: 79})
		})
	}
}

// The driver rejects an event set that contains a lost GPU. Nevertheless, the events of the other GPUs must be reported
// after the loss.
func TestXIDOfTheOthers(t *testing.T) {
	const register = "nvmlDeviceRegisterEvents"
	d := newDriver(t, pair())
	lost, well := d.node.GPUs[0].Device.UUID, d.node.GPUs[1].Device.UUID
	s := d.open(gputest.NewClock().Now)
	watch(t, s)
	gputest.Read(t, s)
	d.node.GPUs[0].Lost = true
	d.fault(lost, "nvmlEventSetWait", "fail:15")
	gputest.Eventually(t, s, "the other GPU is registered again", func(gpu.Report, error) bool {
		return strings.Count(d.log(), register+"\t"+well) == 2
	})
	d.add("xid\tgpu=%s\tseq=1\tcode=48", well)
	wantXIDs(t, s, gpu.DriverEvent{UUID: well, Code: 48})
	if n := strings.Count(d.log(), register+"\t"+lost+"\t0"); n != 1 {
		t.Errorf("the lost GPU was registered %d times", n)
	}
	if made, freed := d.calls("nvmlEventSetCreate"), d.calls("nvmlEventSetFree"); made != 2 || freed != 1 {
		t.Errorf("%d sets were created and %d freed, want one set replaced by another", made, freed)
	}
}

// Calls to the driver must return immediately if there is no event. Otherwise, a release of the driver and the end of
// the exporter would have to wait.
func TestXIDsWithoutWaiting(t *testing.T) {
	d := newDriver(t, pair())
	s := d.open(gputest.NewClock().Now)
	gputest.Read(t, s)
	watch(t, s)
	d.await("nvmlEventSetWait", 2)
	const timedOut, timeout = "10", "0" // NVML_ERROR_TIMEOUT; ms
	for line := range strings.Lines(d.log()) {
		if f := strings.Fields(line); f[1] == "nvmlEventSetWait" && !slices.Equal(f[2:], []string{"-", timedOut, timeout}) {
			t.Errorf("call %q, want a timeout of %s ms", line, timeout)
		}
	}
}

// The event loop must pause if the driver's wait returns immediately.
func TestXIDTimeoutAtOnce(t *testing.T) {
	d := newDriver(t, pair())
	s := d.open(gputest.NewClock().Now)
	gputest.Read(t, s)
	d.fault(anyGPU, "nvmlEventSetWait", "fail:10")
	began := time.Now()
	watch(t, s)
	d.await("nvmlEventSetWait", 4)
	if took := time.Since(began); took < 700*time.Millisecond {
		t.Errorf("4 waits took %v", took)
	}
	if !up(d) {
		t.Error("the stage is down")
	}
}

// TestXIDEvents checks which GPUs deliver events, and that a registration is repeated if its result may change.
func TestXIDEvents(t *testing.T) {
	tests := []struct {
		name, call, fault string
		fields            string
		first, later      bool
		tries             int // number of attempts to register
	}{
		{"delivered", "", "", "", true, true, 1},
		{"only other types of events", "", "", "events=1", false, false, 0},
		{"registration is not supported", "nvmlDeviceRegisterEvents", "fail:3", "", false, false, 1},
		{"registration fails", "nvmlDeviceRegisterEvents", "fail:999", "", false, true, 2},
		{"the types cannot be read", "nvmlDeviceGetSupportedEventTypes", "fail:999", "", false, true, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			clock := gputest.NewClock()
			n := gputest.Node{GPUs: []gputest.GPU{gputest.Bare(0)}}
			n.GPUs[0].Device.ReportsEvents = tt.fields == ""
			d := newDriver(t, n)
			d.fields[n.GPUs[0].Device.UUID] = tt.fields
			d.fault(anyGPU, tt.call, tt.fault)
			s := d.open(clock.Now)
			if got := gputest.Read(t, s).Devices[0].ReportsEvents; got != tt.first {
				t.Errorf("events are delivered: %v, want %v", got, tt.first)
			}
			d.healed()
			for range 3 {
				clock.Advance(time.Minute)
				if got := gputest.Read(t, s).Devices[0].ReportsEvents; got != tt.later {
					t.Errorf("a minute later events are delivered: %v, want %v", got, tt.later)
				}
			}
			if got := d.calls("nvmlDeviceRegisterEvents"); got != tt.tries {
				t.Errorf("tried to register %d times, want %d", got, tt.tries)
			}
		})
	}
}

// Events must arrive once the driver can create an event set.
func TestXIDSetFailsAtFirst(t *testing.T) {
	d := newDriver(t, pair())
	one := d.node.GPUs[0].Device.UUID
	d.fault(anyGPU, "nvmlEventSetCreate", "fail:999")
	s := d.open(gputest.NewClock().Now)
	watch(t, s)
	if gputest.Read(t, s).Devices[0].ReportsEvents {
		t.Error("events are reported although there is no event set")
	}
	d.healed()
	gputest.Eventually(t, s, "events are delivered", func(r gpu.Report, err error) bool { return r.Devices[0].ReportsEvents })
	d.add("xid\tgpu=%s\tseq=1\tcode=79", one)
	wantXIDs(t, s, gpu.DriverEvent{UUID: one, Code: 79})
}

func TestRunEndsWhileAWaitHangs(t *testing.T) {
	d := newDriver(t, pair())
	s := d.open(gputest.NewClock().Now)
	gputest.Read(t, s)
	d.fault(anyGPU, "nvmlEventSetWait", "hang")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Run(ctx); err != nil {
		t.Error("Run:", err)
	}
}
