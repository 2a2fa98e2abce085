package app_test

import "testing"

// BenchmarkTick is one tick of a simulated node of eight GPUs, the fake driver's own
// work included: read, map, settle, save, publish.
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
