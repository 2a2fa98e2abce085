package app_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
)

// TestSlowStart restarts the exporter while the first driver call for one GPU is slow. The call takes longer than the
// time for which a tick waits for calls. The GPU must not count as lost, and must count as a GPU that the driver lists.
func TestSlowStart(t *testing.T) {
	for scenario, call := range map[string]string{"timeslice": "nvmlDeviceGetHandleByIndex", "mi300x": "gpu_metrics"} {
		t.Run(scenario, func(t *testing.T) {
			b := newBench(t, scenario, false)
			b.run(3)
			slow := b.gpus()[0].UUID
			find := func() *gpu.GPU {
				gpus := b.gpus()
				return &gpus[slices.IndexFunc(gpus, func(g gpu.GPU) bool { return g.UUID == slow })]
			}
			check := func(when string) {
				t.Helper()
				g, listed := find(), b.node.Sampler.Latest().DriverGPUs
				if !g.Present || g.Events.Losses != 0 || !g.Events.Reset.IsZero() {
					t.Errorf("%s: present %v, lost %d times, reset at %v", when, g.Present, g.Events.Losses, g.Events.Reset)
				}
				if listed == nil {
					t.Errorf("%s: it is unknown how many GPUs the driver lists", when)
				} else if *listed != len(b.gpus()) {
					t.Errorf("%s: the driver lists %d GPUs, want %d", when, *listed, len(b.gpus()))
				}
			}
			b.stop()
			b.fault(simnode.Fault{GPU: slow, Call: call, Do: "hang"})
			b.cfg.CallTimeout = 200 * time.Millisecond
			b.start()
			b.run(2)
			check("while the first call hangs")
			if find().Reading != nil {
				t.Error("the call does not hang")
			}
			b.fault()
			for end := time.Now().Add(time.Minute); find().Reading == nil && time.Now().Before(end); {
				b.run(1)
			}
			check("after the first call")
		})
	}
}
