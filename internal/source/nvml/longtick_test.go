package nvml_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// TestLongTick reads with the longest tick, and each reading is 100 ms late. The throttled time must grow by the time
// between two readings that both contain a reason (0x40 is a thermal slowdown, nvml.h), and the activity of MIG
// instances must be known.
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
