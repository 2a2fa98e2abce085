package app_test

import (
	"testing"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

// BenchmarkTick measures one tick on a simulated node with eight GPUs, including the work of the fake driver. With
// --explain.period=0, the exporter keeps no intervals for gpuledger explain.
func BenchmarkTick(b *testing.B) {
	for name, flags := range map[string][]string{"default": nil, "unexplained": {"--explain.period=0"}} {
		b.Run(name, func(b *testing.B) {
			sc, err := simnode.Lookup("dgx-h100")
			if err != nil {
				b.Fatal(err)
			}
			n := benchOf(b, sc, false, flags...)
			n.run(10)
			for b.Loop() {
				n.node.Sampler.Tick(b.Context())
				b.StopTimer()
				n.run(1)
				b.StartTimer()
			}
		})
	}
}
