package sampler_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// The GPU is read every ten seconds. It is idle for five minutes. Then it is hot, and the driver's slowdown counter
// grows by nine seconds in every ten seconds.
func TestRecent(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	hot, brake := 100.0, 7.0
	step := func(after time.Duration, busy, heat bool) *gpu.Recent {
		w.now += after
		clock, utilization := 300e6, 0.0
		if busy {
			clock, utilization = 1500e6, 1.0
		}
		if heat {
			hot += 0.9 * after.Seconds()
		}
		r := gpu.Reading{UUID: first, At: w.instant(), Health: []gpu.HealthValue{
			{Metric: gpu.ClockLimitedTime, Labels: []string{"power_cap"}, Value: 1e6 * w.now.Seconds()},
			{Metric: gpu.ClockLimitedTime, Labels: []string{"hardware_thermal"}, Value: hot},
			{Metric: gpu.ClockLimitedTime, Labels: []string{"power_brake"}, Value: brake},
		}}
		r.Gauges[gpu.SMClock], r.Gauges[gpu.Utilization] = &clock, &utilization
		w.report = &gpu.Report{Devices: w.devices, Readings: []gpu.Reading{r}, Drivers: []gpu.Driver{{Vendor: "NVIDIA"}}}
		s.Tick(t.Context())
		for _, g := range s.Latest().GPUs {
			if g.UUID == first {
				return g.Recent
			}
		}
		t.Fatal("no GPU")
		return nil
	}
	repeat := func(n int, busy, heat bool) (last *gpu.Recent) {
		for range n {
			last = step(10*time.Second, busy, heat)
		}
		return last
	}
	expect := func(when string, got, want *gpu.Recent) {
		t.Helper()
		near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 })
		if diff := cmp.Diff(want, got, near); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	// The first reading starts the history, so ten minutes contain 60 more readings.
	repeat(1+30, false, false)
	expect("after less than ten minutes", repeat(29, true, true), nil)
	expect("after ten minutes, half of them hot", repeat(1, true, true), &gpu.Recent{Slowdowns: [7]float64{1: 0.45}, Clock: 900e6, Utilization: 0.5})
	expect("hot for eight of ten minutes", repeat(18, true, true), &gpu.Recent{Slowdowns: [7]float64{1: 0.72}, Clock: 1260e6, Utilization: 0.8})
	expect("hot for ten minutes", repeat(12, true, true), &gpu.Recent{Slowdowns: [7]float64{1: 0.9}, Clock: 1500e6, Utilization: 1})
	expect("hot for five of ten minutes", repeat(30, true, false), &gpu.Recent{Slowdowns: [7]float64{1: 0.45}, Clock: 1500e6, Utilization: 1})
	expect("after a minute without a reading", step(61*time.Second, true, false), nil)
	expect("after ten more minutes", repeat(60, true, false), &gpu.Recent{Clock: 1500e6, Utilization: 1})
	hot, brake = 0, 0
	expect("after a reset", repeat(1, true, false), nil)
	expect("ten minutes after a reset", repeat(60, true, true), &gpu.Recent{Slowdowns: [7]float64{1: 0.9}, Clock: 1500e6, Utilization: 1})
}

// If a call of the driver fails, a reading has no health values. In the next reading, only the increase of a counter
// must count, and not its whole value.
func TestRecentWithoutHealth(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	step := func(health bool) *gpu.Recent {
		w.now += 10 * time.Second
		r := gpu.Reading{UUID: first, At: w.instant()}
		if health {
			r.Health = []gpu.HealthValue{{Metric: gpu.ClockLimitedTime, Labels: []string{"hardware_thermal"}, Value: 5000}}
		}
		w.report = &gpu.Report{Devices: w.devices[:1], Readings: []gpu.Reading{r}, Drivers: []gpu.Driver{{Vendor: "NVIDIA"}}}
		s.Tick(t.Context())
		return s.Latest().GPUs[0].Recent
	}
	for i := range 180 { // half an hour; the first reading and a later reading have no health values
		if r := step(i != 0 && i != 90); r != nil && r.Slowdowns != [7]float64{} {
			t.Fatalf("after %d s, the clocks were limited for %v of the last ten minutes, want never", 10*i, r.Slowdowns)
		}
	}
}
