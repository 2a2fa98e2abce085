package nvml_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// The first driver reports counters, the second driver reports only the current reasons, and the third driver reports
// neither. The bits of the reasons are from nvml.h: 0x20 is a thermal slowdown by software, 0x40 is a thermal slowdown
// by hardware, and 0x80 is the power brake.
func TestThrottled(t *testing.T) {
	type times = gpu.ThrottledTimes
	counters := func(software, hardware, brake time.Duration) string {
		return fmt.Sprintf("throttled_sw_thermal=%d\tthrottled_hw_thermal=%d\tthrottled_power_brake=%d", software, hardware, brake)
	}
	reasons := func(bits int) string { return fmt.Sprintf("clocks_event_reasons=%d", bits) }
	const ms = time.Millisecond
	tests := map[string]struct {
		states []string // states of the driver, a second apart
		want   []*times
	}{
		"counters": {
			[]string{counters(time.Hour, 0, 7), counters(time.Hour, 0, 7), counters(time.Hour+300*ms, 200*ms, 7), counters(time.Hour+300*ms, 900*ms, 1007*ms)},
			[]*times{{}, {}, {300 * ms, 0}, {1000 * ms, 1007*ms - 7}},
		},
		"counters that restart": {
			[]string{counters(0, 0, time.Hour), counters(0, 0, 0), counters(0, 0, time.Second)},
			[]*times{{}, {}, {0, time.Second}},
		},
		"only the power brake has a counter": {
			[]string{"throttled_power_brake=5", fmt.Sprintf("throttled_power_brake=%d\tclocks_event_reasons=64", 5+time.Second)},
			[]*times{{}, {0, time.Second}},
		},
		"reasons": {
			[]string{reasons(0), reasons(0x40), reasons(0x20), reasons(0x80 | 0x08), reasons(0x80), reasons(0x04), reasons(0xc8), reasons(0xff)},
			[]*times{{}, {}, {time.Second, 0}, {time.Second, 0}, {time.Second, time.Second}, {time.Second, time.Second}, {time.Second, time.Second}, {2 * time.Second, 2 * time.Second}},
		},
		"power cap and idle do not count as throttling": {[]string{reasons(0x05), reasons(0x05)}, []*times{{}, {}}},
		"neither": {[]string{"", ""}, []*times{nil, nil}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			clock := gputest.NewClock()
			d := newDriver(t, gputest.Node{GPUs: []gputest.GPU{gputest.Plain(0)}})
			s := d.open(clock.Now)
			var got []*times
			for _, state := range tt.states {
				d.fields[d.node.GPUs[0].Device.UUID] = state
				d.write()
				got = append(got, gputest.Read(t, s).Readings[0].Throttled)
				clock.Advance(time.Second)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("times (-want +got):\n%s", diff)
			}
		})
	}
}

// A minute without a reading must not count as throttled, even if the readings before and after it contain reasons. The
// counted times must continue after a driver reload.
func TestThrottledAfterPause(t *testing.T) {
	clock := gputest.NewClock()
	d := newDriver(t, gputest.Node{GPUs: []gputest.GPU{gputest.Plain(0)}})
	s := d.open(clock.Now)
	d.fields[d.node.GPUs[0].Device.UUID] = "clocks_event_reasons=64"
	d.write()
	read := func(want time.Duration, after time.Duration) {
		t.Helper()
		clock.Advance(after)
		report := gputest.Eventually(t, s, "the driver responds", func(_ gpu.Report, err error) bool { return err == nil })
		if got := report.Readings[0].Throttled; got == nil || got[gpu.ThrottleThermal] != want {
			t.Errorf("throttled for %v, want %v", got, want)
		}
	}
	read(0, 0)
	read(time.Second, time.Second)
	read(time.Second, time.Minute)
	d.node.Loads++
	d.write()
	read(time.Second, time.Second)
	read(2*time.Second, time.Second)
}
