package main_test

import (
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/host"
	"github.com/gpuledger/gpuledger/internal/simnode"
)

// TestHeldUp runs the exporter on a node that is held up again and again, as on a busy
// machine: before it looks at the clock, or between the clock and the step. A board goes
// on counting meanwhile, and so no counter that the exporter reads may leap.
func TestHeldUp(t *testing.T) {
	for _, source := range []string{"nvml", "auto"} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			sc, err := simnode.Lookup("dgx-h100")
			if err != nil {
				t.Fatal(err)
			}
			n := openHeldUp(t, sc, stumbling())
			flags, counters := []string{"--tick=200ms", "--nvml.call-timeout=5s"}, readCounters
			if source == "auto" {
				flags, counters = append(append(n.EngineFlags(client), flags...), "--source=auto"), bothCounters
			}
			e := start(t, n, flags...)
			p := e.scrapeUntil("every book has begun", gauges(8))
			for i := range 4 {
				setEngine(t, n, simnode.Engine{Down: i%2 == 0, Starts: i})
				p = e.scrapeUntilRising(p, "time has passed", after(2*time.Second))
			}
			checkBalance(t, p)
			for _, name := range []string{"gpuledger_gpu_energy_resets_total", "gpuledger_gpu_readings_rejected_total"} {
				if sum := p.Sum(name, nil); sum != 0 {
					t.Errorf("%s is %v", name, sum)
				}
			}
			checkTruth(t, n, p, checkCounters(t, counters(t, n), p))
		})
	}
}

// stumbling returns a clock that takes long to tell the time every fifth time, before it
// looks or after.
func stumbling() func() gpu.Instant {
	const long = 1500 * time.Millisecond
	calls := 0
	return func() gpu.Instant {
		calls++
		if calls%10 == 0 {
			<-time.After(long)
		}
		now := host.Now()
		if calls%10 == 5 {
			<-time.After(long)
		}
		return now
	}
}
