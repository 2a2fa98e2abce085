package nvml_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes/nodestate"
)

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
		nodestate.Row(uuid, now.Add(time.Hour), 7, 0.5, 0),                             // in the future
		nodestate.Row(uuid, now, 0, 0.5, 0),                                            // no process
		nodestate.Row(uuid, now, 7, 371, 0),                                            // more than 100 %
		nodestate.Row(uuid, now, 7, 0, 42),                                             // more than 100 % of the memory
		fmt.Sprintf("row\tgpu=%s\ttime=%d\tpid=7\tsm=1", uuid, uint64(math.MaxUint64)), // an impossible time
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
		t.Errorf("the second reading returned samples again: %+v, known %v", r.Samples, r.SamplesKnown)
	}
}

// After the wall clock was set forward, the newest sample seems to be old. Samples must be read nevertheless.
func TestClockSetForward(t *testing.T) {
	clock := gputest.NewClock()
	n := gputest.Node{GPUs: []gputest.GPU{gputest.Full(0)}}
	g := &n.GPUs[0]
	g.Reading.Samples, g.SampledAt = []gpu.Sample{{PID: 7, SM: 1}}, clock.Now().Wall
	d := newDriver(t, n)
	var set time.Duration
	now := func() gpu.Instant { i := clock.Now(); i.Wall = i.Wall.Add(set); return i }
	s := d.open(now)
	gputest.Check(t, gputest.Read(t, s), n)
	set = time.Hour
	clock.Advance(time.Second)
	g.Reading.Samples, g.SampledAt = []gpu.Sample{{PID: 8, SM: 1}}, now().Wall.Add(-time.Millisecond)
	d.write()
	report := gputest.Read(t, s)
	gputest.Check(t, report, n)
	if got := report.Readings[0].Sampled.Len(); got != time.Second-time.Millisecond {
		t.Errorf("the samples cover %v", got)
	}
}

// A ring simulates the driver's buffer of ten seconds, with one sample every half second. A sample names the active
// process and contains a wall-clock time.
type ring struct {
	uuid    string
	samples []ringSample
}

type ringSample struct {
	at  time.Duration // boot clock
	row string
}

func (r *ring) add(at gpu.Instant, pid uint32) {
	r.samples = append(r.samples, ringSample{at.Boot, fmt.Sprintf("sample\tgpu=%s\ttime=%d\tpid=%d\tsm=100", r.uuid, at.Wall.UnixMicro(), pid)})
}

func (r *ring) lines(now time.Duration) (lines []string) {
	r.samples = slices.DeleteFunc(r.samples, func(s ringSample) bool { return s.at <= now-10*time.Second })
	for _, s := range r.samples {
		lines = append(lines, s.row)
	}
	return lines
}

// While the driver's buffer contains samples from before the wall clock was set back, readings must cover no time. The
// first reading without such samples must cover the whole time. Its samples must contain the average activity since the
// clock was set.
func TestClockSetBack(t *testing.T) {
	for _, by := range []time.Duration{-2 * time.Second, -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			clock, n := gputest.NewClock(), gputest.Node{GPUs: []gputest.GPU{gputest.Full(0)}}
			r, d := &ring{uuid: n.GPUs[0].Device.UUID}, newDriver(t, n)
			var set time.Duration
			now := func() gpu.Instant { i := clock.Now(); i.Wall = i.Wall.Add(set); return i }
			s := d.open(now)
			busy, covered := make(map[uint32]time.Duration), clock.Now().Boot
			tick := func(pids ...uint32) {
				for range 2 {
					for _, pid := range pids {
						r.add(now(), pid)
					}
					clock.Advance(500 * time.Millisecond)
				}
				d.lines = r.lines(clock.Now().Boot)
				d.write()
				got := gputest.Read(t, s).Readings[0]
				if !got.SamplesKnown || got.Sampled.From != covered {
					t.Errorf("%v later: samples known %v, covering %v, want them to begin at %v", clock.Now().Boot-time.Hour, got.SamplesKnown, got.Sampled, covered)
				}
				if got.Sampled.Len() > 0 && len(got.Samples) == 0 {
					t.Errorf("%v later: no process was active in %v", clock.Now().Boot-time.Hour, got.Sampled)
				}
				covered = got.Sampled.To
				for _, x := range got.Samples {
					busy[x.PID] += time.Duration(x.SM * float64(x.Len()))
				}
			}
			for range 15 {
				tick(7)
			}
			set = by
			clear(busy)
			for range 11 {
				tick(8, 8, 8, 9)
			}
			if clock.Now().Boot-covered > time.Second {
				t.Errorf("samples are known up to %v before now", clock.Now().Boot-covered)
			}
			if busy[7] > 0 || busy[8] < 8*time.Second || busy[9] < 2500*time.Millisecond || busy[9] > 3500*time.Millisecond {
				t.Errorf("activity of the processes since the clock was set: %v", busy)
			}
		})
	}
}

// If the driver has no samples, they must stay unknown after the wall clock was set back.
func TestClockSetBackWithoutSamples(t *testing.T) {
	clock, n := gputest.NewClock(), gputest.Node{GPUs: []gputest.GPU{gputest.Bare(0)}}
	var set time.Duration
	s := newDriver(t, n).open(func() gpu.Instant { i := clock.Now(); i.Wall = i.Wall.Add(set); return i })
	for i := range 15 {
		if r := gputest.Read(t, s).Readings[0]; r.SamplesKnown {
			t.Errorf("reading %d: samples that cover %v are known", i, r.Sampled)
		}
		clock.Advance(time.Second)
		set = -time.Hour
	}
}

// The newest sample must be reported only once, although the two clocks of an instant are read at different moments.
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

// If a reading is so late that the driver has already dropped samples, it must cover the last ten seconds.
func TestLostSamples(t *testing.T) {
	clock := gputest.NewClock()
	n := gputest.Node{GPUs: []gputest.GPU{gputest.Full(0)}}
	s := newDriver(t, n).open(clock.Now)
	until := gputest.Read(t, s).Readings[0].Sampled.To
	clock.Advance(30 * time.Second)
	got := gputest.Read(t, s).Readings[0].Sampled
	if lost := got.From - until; got.Len() > 10*time.Second || lost < 20*time.Second || lost > 21*time.Second {
		t.Errorf("samples cover %v after a reading up to %v", got, until)
	}
}
