package health

import (
	"fmt"
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// The alerts GPULedgerGPUThrottled and GPULedgerClockLow have the same limits.
const (
	maxSlowdown = 0.5 // maximum fraction of ten minutes in which the clocks may be reduced
	busy        = 0.8 // minimum utilisation of a busy GPU
	minClock    = 0.8 // minimum clock as a fraction of the median
)

func recent(s *gpu.Snapshot, g *gpu.GPU) (found []Evidence) {
	if g.Recent == nil || !g.Present {
		return nil
	}
	for i, fraction := range g.Recent.Slowdowns {
		if fraction > maxSlowdown {
			found = append(found, condition(throttled, fmt.Sprintf("%s, %.0f %%", gpu.Slowdowns[i], 100*fraction)))
		}
	}
	if median := medianClock(s, g); g.Recent.Utilization > busy && g.Recent.Clock < minClock*median {
		found = append(found, condition(clockLow, fmt.Sprintf("%.0f MHz, median %.0f MHz", g.Recent.Clock/1e6, median/1e6)))
	}
	return found
}

// medianClock returns the median clock of the busy GPUs with the model and the holder of g. It returns 0 if there are
// none. It ignores the GPUs of other holders, because their clocks depend on other work.
func medianClock(s *gpu.Snapshot, g *gpu.GPU) float64 {
	var clocks []float64
	for i := range s.GPUs {
		other := &s.GPUs[i]
		if other.Recent != nil && other.Recent.Utilization > busy && other.Model == g.Model && shareHolder(g, other) {
			clocks = append(clocks, other.Recent.Clock)
		}
	}
	if len(clocks) == 0 {
		return 0
	}
	slices.Sort(clocks)
	n := len(clocks)
	return (clocks[(n-1)/2] + clocks[n/2]) / 2
}

func shareHolder(a, b *gpu.GPU) bool {
	return slices.ContainsFunc(a.Holders, func(h gpu.Holder) bool {
		return slices.ContainsFunc(b.Holders, func(other gpu.Holder) bool { return h.Group() == other.Group() })
	})
}
