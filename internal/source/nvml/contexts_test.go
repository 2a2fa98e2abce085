package nvml_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

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

// One of the three lists must be enough.
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
