package health

import (
	"fmt"
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// If a metric in counts is above 0, this is a finding. Only series with one of the label values are used.
var counts = []struct {
	metric gpu.HealthMetric
	code   string
	label  int // position of the label in the metric's labels
	values []string
}{
	{gpu.ECCErrors, memoryErrors, 1, []string{"uncorrectable"}},
	{gpu.MemoryBanks, spareRowsLow, 0, []string{"low", "none"}},
	{gpu.NVLinkErrors, linkErrors, 0, []string{"replay", "recovery", "recovery_failed"}},
}

func counted(r *gpu.Reading) (found []Evidence) {
	for _, c := range counts {
		for _, v := range r.Health {
			if v.Metric == c.metric && v.Value > 0 && slices.Contains(c.values, v.Labels[c.label]) {
				found = append(found, condition(c.code, fmt.Sprintf("%.0f %s", v.Value, v.Labels[0])))
			}
		}
	}
	return found
}

// inactive returns the number of inactive NVLink links. It returns -1 if the GPU reports no links.
func inactive(g *gpu.GPU) int {
	if g.Reading == nil {
		return -1
	}
	n := -1
	for _, v := range g.Reading.Health {
		if v.Metric != gpu.NVLinkLinks {
			continue
		}
		n = max(n, 0)
		if v.Labels[0] == "inactive" {
			n = int(v.Value)
		}
	}
	return n
}

// downLinks compares a GPU with the other GPUs of the node. Some machines leave links unconnected, but then on all
// GPUs.
func downLinks(s *gpu.Snapshot, g *gpu.GPU) []Evidence {
	n := inactive(g)
	for i := range s.GPUs {
		if other := inactive(&s.GPUs[i]); n > 0 && g.Present && other >= 0 && other < n {
			return []Evidence{condition(linksDown, fmt.Sprintf("%d inactive", n))}
		}
	}
	return nil
}
