package app_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/health"
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

// TestSlowStartOfTheLast removes the first GPU from the driver's list, so the other GPUs get other indices, and the first
// call for the last GPU is slow. The last GPU must not count as lost. The first GPU must count as lost once all other
// GPUs are open. With a restart, the exporter is down when the driver's list changes.
func TestSlowStartOfTheLast(t *testing.T) {
	for name, restart := range map[string]bool{"running": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			sc, err := simnode.Lookup("gb200")
			if err != nil {
				t.Fatal(err)
			}
			b := benchOf(t, sc, false, "--nvml.call-timeout=200ms")
			b.untilRead(0, 1, 2, 3)
			removed := simnode.Fault{GPU: b.gpus()[0].UUID, Call: "nvmlDeviceGetCount", Do: "drop"}
			slow := simnode.Fault{GPU: b.gpus()[3].UUID, Call: "nvmlDeviceGetHandleByIndex", Do: "hang"}
			if restart {
				b.stop()
			}
			b.fault(removed, slow)
			if restart {
				b.start()
			}
			b.run(2)
			b.untilRead(1, 2)
			b.checkLosses(0, 0, 0, 0)
			if n := *b.node.Sampler.Latest().DriverGPUs; n != 3 || b.gpus()[3].Reading != nil {
				t.Errorf("while the first call hangs, the driver lists %d GPUs, want 3; reading %v, want none", n, b.gpus()[3].Reading)
			}
			b.fault(removed)
			b.untilRead(1, 2, 3)
			b.checkLosses(1, 0, 0, 0)
		})
	}
}

// TestLossDuringSlowStart loses a GPU while the first call for another GPU hangs. Only the lost GPU must count as lost.
func TestLossDuringSlowStart(t *testing.T) {
	sc, err := simnode.Lookup("gb200")
	if err != nil {
		t.Fatal(err)
	}
	b := benchOf(t, sc, false, "--nvml.call-timeout=200ms")
	b.untilRead(0, 1, 2, 3)
	b.stop()
	slow := simnode.Fault{GPU: b.gpus()[0].UUID, Call: "nvmlDeviceGetHandleByIndex", Do: "hang"}
	lost := simnode.Fault{GPU: b.gpus()[3].UUID, Call: "*", Do: "fail:15"} // NVML_ERROR_GPU_IS_LOST
	b.fault(slow)
	b.start()
	b.run(1)
	b.untilRead(1, 2, 3)
	b.fault(slow, lost)
	b.run(3)
	b.untilRead(1, 2)
	b.checkLosses(0, 0, 0, 1)
	b.fault()
	b.untilRead(0, 1, 2, 3)
}

// TestSlowStartAfterOutage starts the exporter after an outage of ten minutes, while the first call for a GPU hangs. The
// finding not_answering must appear only after the call has hung for five minutes.
func TestSlowStartAfterOutage(t *testing.T) {
	sc, err := simnode.Lookup("gb200")
	if err != nil {
		t.Fatal(err)
	}
	b := benchOf(t, sc, false, "--nvml.call-timeout=200ms")
	b.untilRead(0, 1, 2, 3)
	check := func(when string, want bool) {
		t.Helper()
		g := health.New(b.node.Sampler.Latest(), b.now).GPUs[3]
		if got := slices.ContainsFunc(g.Evidence, func(e health.Evidence) bool { return e.Code == "not_answering" }); got != want {
			t.Errorf("%s: not_answering %v, want %v; advice %s", when, got, want, g.Advice)
		}
	}
	b.stop()
	b.fault(simnode.Fault{GPU: b.gpus()[3].UUID, Call: "nvmlDeviceGetHandleByIndex", Do: "hang"})
	b.advance(10 * time.Minute)
	b.start()
	b.untilRead(0, 1, 2)
	check("after the outage", false)
	b.runSlowly(4)
	check("after four minutes", false)
	b.runSlowly(2)
	check("after six minutes", true)
	b.fault()
	b.untilRead(0, 1, 2, 3)
	check("after the call", false)
}

// checkLosses compares the number of losses of each GPU. A GPU with a loss must not be present.
func (b *bench) checkLosses(losses ...uint64) {
	b.t.Helper()
	for i, g := range b.gpus() {
		if g.Events.Losses != losses[i] || g.Present != (losses[i] == 0) {
			b.t.Errorf("GPU %d: lost %d times, present %v; want %d losses", i, g.Events.Losses, g.Present, losses[i])
		}
	}
}

// untilRead runs the node until the last tick has read the given GPUs.
func (b *bench) untilRead(gpus ...int) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		b.run(1)
		if !slices.ContainsFunc(gpus, func(i int) bool { return b.gpus()[i].Reading == nil }) {
			return
		}
	}
	b.t.Fatalf("the GPUs %v were not read within a minute", gpus)
}
