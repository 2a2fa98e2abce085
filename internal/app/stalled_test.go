package app_test

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
)

// TestStalledFiles checks AMD GPUs whose files do not change for 1 to 7 seconds and then jump. On a busy machine, the
// simulated files do this in real time. The exporter must not treat a counter as reset. On GPUs with one owner, the
// charged energy must match the simulated energy.
func TestStalledFiles(t *testing.T) {
	for _, name := range []string{"mi300x", "mixed"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, name, false)
			for stalled := range 8 {
				b.run(7)
				for range stalled {
					b.now.Wall, b.now.Boot = b.now.Wall.Add(time.Second), b.now.Boot+time.Second
					b.node.Sampler.Tick(t.Context())
				}
			}
			b.run(10)
			b.balanced()
			rows, err := simnode.ReadTruth(filepath.Join(b.world.Dir(), "truth.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range b.gpus() {
				first := rows[0].GPU(g.UUID)
				last := rows.Find(g.UUID, *first.Counter+g.Book.Energy)
				if last == nil || g.Book.Resets != 0 || g.Book.Rejected != 0 || g.Book.Uncounted != 0 {
					t.Errorf("%s: %+v, want the energy of a reading and no reset", g.UUID, g.Book)
					continue
				}
				if g.Partitions != nil {
					continue
				}
				for owner, want := range last.GPU(g.UUID).Since(first) {
					var got gpu.Millijoules
					for i := range g.Book.Accounts {
						if a := &g.Book.Accounts[i]; a.Owner == owner {
							got += a.Energy.Sum()
						}
					}
					if off := float64(got-want) / float64(g.Book.Energy); math.Abs(off) > near {
						t.Errorf("%s on %s is charged %d mJ, want %d: the error is %.1f %% of the GPU's energy", owner.Name, g.UUID, got, want, 100*off)
					}
				}
			}
		})
	}
}
