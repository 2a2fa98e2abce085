package app_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/health"
	"github.com/gpuledger/gpuledger/internal/source/nvml"
)

// TestReleasedGPU checks that a GPU that an operator has released for ten minutes does not count as a GPU that does not
// respond.
func TestReleasedGPU(t *testing.T) {
	b := newBench(t, "timeslice", false)
	b.run(3)
	released := b.gpus()[0].UUID
	request := &nvml.Release{GPU: released, Until: b.now.Wall.Add(10 * time.Minute), Ends: b.now.Boot + 10*time.Minute, By: "ada"}
	if _, err := b.node.NVML.Release(request); err != nil {
		t.Fatal(err)
	}
	check := func(when string, answers bool) {
		t.Helper()
		s := b.node.Sampler.Latest()
		if g := s.GPUs[slices.IndexFunc(s.GPUs, func(g gpu.GPU) bool { return g.UUID == released })]; (g.Reading != nil) != answers {
			t.Errorf("%s: reading %v, want %v", when, g.Reading, answers)
		}
		page := health.New(s, b.now)
		if page.Advice != health.OK {
			t.Errorf("%s: advice %s: %+v", when, page.Advice, page.GPUs)
		}
	}
	b.run(2)
	check("after two seconds", false)
	b.runSlowly(6)
	check("after six minutes", false)
	b.runSlowly(4)
	b.run(2)
	check("after the release", true)
}
