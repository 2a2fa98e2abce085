package app_test

import "testing"

// BenchmarkTick measures one tick of a simulated node with eight GPUs: read, map, settle, save,
// publish. It includes the work of the fake driver.
func BenchmarkTick(b *testing.B) {
	n := newBench(b, "dgx-h100", false)
	n.run(10)
	for b.Loop() {
		n.node.Sampler.Tick(b.Context())
		b.StopTimer()
		n.run(1)
		b.StartTimer()
	}
}
