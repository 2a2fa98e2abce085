package nvml_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes/nodestate"
)

// TestGarbageSamples drops rows that cannot be true.
func TestGarbageSamples(t *testing.T) {
	clock := gputest.NewClock()
	now := clock.Now().Wall
	n := gputest.Node{GPUs: []gputest.GPU{gputest.Full(0)}}
	n.GPUs[0].SampledAt = now.Add(-time.Millisecond)
	n.GPUs[0].Reading.Samples = []gpu.Sample{{PID: 7, SM: 1}, {PID: 8, SM: 0.01, Memory: 1}}
	d := newDriver(t, n)
	uuid := n.GPUs[0].Device.UUID
	d.lines = []string{
		nodestate.Row(uuid, now.Add(-time.Hour), 7, 0.5, 0),                            // long ago
		nodestate.Row(uuid, now.Add(time.Hour), 7, 0.5, 0),                             // not yet
		nodestate.Row(uuid, now, 0, 0.5, 0),                                            // nobody
		nodestate.Row(uuid, now, 7, 371, 0),                                            // more than all of it
		nodestate.Row(uuid, now, 7, 0, 42),                                             //
		fmt.Sprintf("row\tgpu=%s\ttime=%d\tpid=7\tsm=1", uuid, uint64(math.MaxUint64)), // never
	}
	d.write()
	s := d.open(clock.Now)
	report := gputest.Read(t, s)
	gputest.Check(t, report, n)
	if want := (gpu.Span{From: clock.Now().Boot - time.Second, To: clock.Now().Boot - time.Millisecond}); report.Readings[0].Sampled != want {
		t.Errorf("samples of %v, want %v", report.Readings[0].Sampled, want)
	}
	clock.Advance(time.Second)
	if r := gputest.Read(t, s).Readings[0]; len(r.Samples) != 0 || !r.SamplesKnown {
		t.Errorf("samples again: %+v, known %v", r.Samples, r.SamplesKnown)
	}
}

// TestClockSet goes on with samples after the wall clock was set, which leaves the
// newest sample in the future or long ago.
func TestClockSet(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			clock := gputest.NewClock()
			n := gputest.Node{GPUs: []gputest.GPU{gputest.Full(0)}}
			g := &n.GPUs[0]
			g.Reading.Samples, g.SampledAt = []gpu.Sample{{PID: 7, SM: 1}}, clock.Now().Wall
			d := newDriver(t, n)
			var set time.Duration
			now := func() gpu.Instant { i := clock.Now(); i.Wall = i.Wall.Add(set); return i }
			s := d.open(now)
			gputest.Check(t, gputest.Read(t, s), n)
			set = by
			clock.Advance(time.Second)
			g.Reading.Samples, g.SampledAt = []gpu.Sample{{PID: 8, SM: 1}}, now().Wall.Add(-time.Millisecond)
			d.write()
			report := gputest.Read(t, s)
			gputest.Check(t, report, n)
			if got := report.Readings[0].Sampled.Len(); got != time.Second-time.Millisecond {
				t.Errorf("the samples cover %v", got)
			}
		})
	}
}

// TestToldOnce reads the two clocks of an instant not at one moment. The newest sample is
// told once all the same.
func TestToldOnce(t *testing.T) {
	for _, noise := range []time.Duration{-time.Millisecond, -200 * time.Nanosecond, 200 * time.Nanosecond, time.Millisecond} {
		clock, n := gputest.NewClock(), gputest.Node{GPUs: []gputest.GPU{gputest.Full(0)}}
		uuid, d := n.GPUs[0].Device.UUID, newDriver(t, n)
		ago := func(pid uint32) string {
			return nodestate.Row(uuid, clock.Now().Wall.Add(-50*time.Millisecond), pid, 1, 0)
		}
		var off time.Duration
		s := d.open(func() gpu.Instant { i := clock.Now(); i.Wall = i.Wall.Add(off); return i })
		d.lines = []string{ago(7)}
		d.write()
		gputest.Read(t, s)
		clock.Advance(time.Second)
		off = noise
		d.lines = append(d.lines, ago(8))
		d.write()
		if got := gputest.Read(t, s).Readings[0].Samples; len(got) != 1 || got[0].PID != 8 {
			t.Errorf("clocks %v apart: %+v", noise, got)
		}
	}
}

// TestLostSamples comes so late that the driver's ring wrapped: what is known is of
// the last ten seconds.
func TestLostSamples(t *testing.T) {
	clock := gputest.NewClock()
	n := gputest.Node{GPUs: []gputest.GPU{gputest.Full(0)}}
	s := newDriver(t, n).open(clock.Now)
	until := gputest.Read(t, s).Readings[0].Sampled.To
	clock.Advance(30 * time.Second)
	got := gputest.Read(t, s).Readings[0].Sampled
	if lost := got.From - until; got.Len() > 10*time.Second || lost < 20*time.Second || lost > 21*time.Second {
		t.Errorf("samples of %v after those up to %v", got, until)
	}
}
