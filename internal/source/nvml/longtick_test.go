package nvml_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// TestLongTick reads with the longest tick, and each reading is 100 ms late. If two successive readings report a
// throttle reason, the throttled time must increase by the time between the readings (0x40 is a thermal slowdown,
// nvml.h). The activity of MIG instances must be known.
func TestLongTick(t *testing.T) {
	const late = 30*time.Second + 100*time.Millisecond
	clock, n := gputest.NewClock(), gputest.Node{GPUs: []gputest.GPU{gputest.Busy(0), gputest.Plain(1)}}
	d := newDriver(t, n)
	d.tick = 30 * time.Second
	s := d.open(clock.Now)
	whole := n.GPUs[1].Device.UUID
	d.fields[whole] = "clocks_event_reasons=64"
	d.write()
	var throttled []*gpu.ThrottledTimes
	var known []bool
	for range 3 {
		r := gputest.Read(t, s).Readings
		throttled, known = append(throttled, r[1].Throttled), append(known, r[0].InstancesKnown)
		clock.Advance(late)
	}
	if diff := cmp.Diff([]*gpu.ThrottledTimes{{}, {late, 0}, {2 * late, 0}}, throttled); diff != "" {
		t.Errorf("throttled times (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]bool{false, true, true}, known); diff != "" {
		t.Errorf("whether the instances are known (-want +got):\n%s", diff)
	}
}

// TestLongTickPower integrates the power of a GPU without a counter. It uses the longest tick, and each reading is 100
// ms late: 300 W for 30.1 s are 9,030 J. If two readings are more than five ticks apart, the time between them is a
// gap. The highest power of a board must not overflow the integral.
func TestLongTickPower(t *testing.T) {
	const late = 30*time.Second + 100*time.Millisecond
	clock, g := gputest.NewClock(), gputest.Plain(0)
	g.Device.EnergySource, g.Reading.Energy = gpu.EnergyPower, nil
	d := newDriver(t, gputest.Node{GPUs: []gputest.GPU{g}})
	d.tick = 30 * time.Second
	s := d.open(clock.Now)
	for _, step := range []struct {
		after time.Duration
		watts float64
		want  gpu.Millijoules
	}{
		{0, 300, 0},
		{late, 300, 9_030_000},
		{late, 300, 18_060_000},
		{150*time.Second + 1, 300, 18_060_000},
		{time.Minute, 100, 30_060_000},
		{151 * time.Second, 100_000, 30_060_000},
		{150 * time.Second, 100_000, 15_030_060_000},
	} {
		clock.Advance(step.after)
		d.node.GPUs[0].Reading.Gauges[gpu.Power] = new(step.watts)
		d.write()
		if r := gputest.Read(t, s).Readings[0]; r.Energy == nil || *r.Energy != step.want {
			t.Errorf("after %v at %v W the energy is %v, want %d", step.after, step.watts, *r.Energy, step.want)
		}
	}
}
