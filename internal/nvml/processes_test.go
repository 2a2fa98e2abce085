package nvml_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// TestContexts merges the lists: one entry per process.
func TestContexts(t *testing.T) {
	g := gputest.Full(0)
	g.Reading.Contexts = nil
	d := newDriver(t, gputest.Node{GPUs: []gputest.GPU{g}})
	for _, p := range []string{
		"pid=30\tkind=compute\tmemory=100", "pid=30\tkind=graphics\tmemory=100",
		"pid=10\tkind=graphics", "pid=10\tkind=mps\tmemory=50",
		"pid=20\tkind=compute", "pid=0\tkind=compute\tmemory=1",
	} {
		d.add("process\tgpu=%s\t%s", g.Device.UUID, p)
	}
	r := gputest.Read(t, d.open(gputest.NewClock().Now)).Readings[0]
	want := []gpu.Context{{PID: 10, MemoryUsed: new(uint64(50)), MPS: true}, {PID: 20}, {PID: 30, MemoryUsed: new(uint64(100))}}
	if diff := cmp.Diff(want, r.Contexts); diff != "" || !r.ContextsKnown {
		t.Errorf("contexts (-want +got), known %v:\n%s", r.ContextsKnown, diff)
	}
}

// TestContextsKnown needs one list out of three.
func TestContextsKnown(t *testing.T) {
	d := newDriver(t, pair())
	s := d.open(gputest.NewClock().Now)
	lists := []string{"nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses"}
	for i, list := range lists {
		d.fault(anyGPU, list, "fail:3")
		if got := gputest.Read(t, s).Readings[0].ContextsKnown; got != (i < 2) {
			t.Errorf("with %d lists failing contexts are known: %v", i+1, got)
		}
	}
}

// TestGarbageSamples drops rows that cannot be true.
func TestGarbageSamples(t *testing.T) {
	clock := gputest.NewClock()
	now := clock.Now().Wall
	n := gputest.Node{GPUs: []gputest.GPU{gputest.Full(0)}}
	good := []gpu.Sample{{PID: 7, At: now.Add(-2 * time.Millisecond), SM: 1}, {PID: 8, At: now.Add(-time.Millisecond), SM: 0.01, Memory: 1}}
	n.GPUs[0].Reading.Samples = good
	d := newDriver(t, n)
	uuid := n.GPUs[0].Device.UUID
	d.lines = []string{
		rowRecord(uuid, now.Add(-time.Hour), 7, 0.5, 0),                                // long ago
		rowRecord(uuid, now.Add(time.Hour), 7, 0.5, 0),                                 // not yet
		rowRecord(uuid, now, 0, 0.5, 0),                                                // nobody
		rowRecord(uuid, now, 7, 371, 0),                                                // more than all of it
		rowRecord(uuid, now, 7, 0, 42),                                                 //
		fmt.Sprintf("row\tgpu=%s\ttime=%d\tpid=7\tsm=1", uuid, uint64(math.MaxUint64)), // never
	}
	d.write()
	s := d.open(clock.Now)
	r := gputest.Read(t, s).Readings[0]
	if diff := cmp.Diff(good, r.Samples); diff != "" || !r.SamplesKnown {
		t.Errorf("samples (-want +got), known %v:\n%s", r.SamplesKnown, diff)
	}
	clock.Advance(time.Second)
	if r := gputest.Read(t, s).Readings[0]; len(r.Samples) != 0 || !r.SamplesKnown {
		t.Errorf("samples again: %+v, known %v", r.Samples, r.SamplesKnown)
	}
}

// TestClockSetBack goes on with samples after the wall clock was set back, which
// leaves the newest sample in the future.
func TestClockSetBack(t *testing.T) {
	clock := gputest.NewClock()
	n := gputest.Node{GPUs: []gputest.GPU{gputest.Full(0)}}
	samples := &n.GPUs[0].Reading.Samples
	*samples = []gpu.Sample{{PID: 7, At: clock.Now().Wall, SM: 1}}
	d := newDriver(t, n)
	now := clock.Now
	back := func() gpu.Instant { i := now(); i.Wall = i.Wall.Add(-time.Hour); return i }
	current := now
	s := d.open(func() gpu.Instant { return current() })
	gputest.Check(t, gputest.Read(t, s), n)
	current = back
	*samples = []gpu.Sample{{PID: 8, At: back().Wall, SM: 1}}
	d.write()
	gputest.Check(t, gputest.Read(t, s), n)
}

// TestSamplesGrowBetweenCalls adds a sample between the binding's two calls, on
// which it panics.
func TestSamplesGrowBetweenCalls(t *testing.T) {
	const call = "nvmlDeviceGetProcessUtilization"
	clock := gputest.NewClock()
	n := gputest.Node{GPUs: []gputest.GPU{gputest.Full(0)}}
	samples := &n.GPUs[0].Reading.Samples
	*samples = []gpu.Sample{{PID: 7, At: clock.Now().Wall.Add(-2), SM: 1}}
	d := newDriver(t, n)
	d.fault(anyGPU, call, "delay:100")
	s := d.open(clock.Now)
	done := make(chan gpu.Report)
	go func() {
		r, _ := s.Read(t.Context())
		done <- r
	}()
	for d.calls(call) == 0 {
		<-time.After(time.Millisecond)
	}
	for i := range 100 {
		*samples = append(*samples, gpu.Sample{PID: uint32(100 + i), At: clock.Now().Wall, SM: 0})
	}
	d.write()
	<-done
	report := gputest.Eventually(t, s, "samples came", func(r gpu.Report, err error) bool { return len(r.Readings) == 1 })
	if !report.Readings[0].SamplesKnown {
		t.Error("samples are not known")
	}
	if got := d.calls(call); got < 4 {
		t.Errorf("%d calls: the list did not grow between two of them", got)
	}
}
