package sampler_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// charged contains the paths of the report values that the ledger uses. An entry covers all paths with this prefix.
var charged = []string{
	"Devices.EnergySource", "Devices.EnergyScope", "Devices.MaxPower", "Devices.Partitions", "Readings.UUID", "Readings.At", "Readings.Took", "Readings.Energy", "Readings.QuietPower", "Readings.QuietSampled",
	"Readings.ModulePower", "Readings.Contexts", "Readings.Sample", "Readings.Instances",
}

// unused contains the paths of the report values that the sampler copies neither to the snapshot nor to the ledger.
var unused = []string{"Opening", "Lost", "Readings.ModuleShare", "Readings.Contexts.MemoryUsed", "Readings.Contexts.MPS", "Readings.Samples.Memory"}

// A report value that the ledger uses must be in the observation. All other values must be in the snapshot. Other tests
// check memory, MPS clients, Opening and Lost. ModuleShare is an exception, because the sampler computes it.
func TestEveryFieldIsUsed(t *testing.T) {
	full := func() *gpu.Report {
		r := gpu.Full[gpu.Report](true)
		r.Devices[0].EnergySource, r.Devices[0].EnergyScope = gpu.EnergyCounter, gpu.ScopeModule
		reading := &r.Readings[0]
		reading.ModulePower.Module = 2
		reading.Counters[0].Metric = reading.Health[0].Metric + 1 // for the same metric, the sampler would add the sum to the health value
		for _, span := range []*gpu.Span{&reading.Sampled, &reading.Samples[0].Span, &reading.Instances[0].Span} {
			span.To = time.Second
		}
		return r
	}
	snapshot, observed := use(t, full())
	gputest.Without(full, func(path string, r *gpu.Report) {
		s, o := use(t, r)
		starts := func(entry string) bool { return strings.HasPrefix(path, entry) }
		switch {
		case slices.Contains(unused, path):
		case slices.ContainsFunc(charged, starts) && cmp.Equal(observed, o):
			t.Errorf("the ledger does not receive %s", path)
		case !slices.ContainsFunc(charged, starts) && cmp.Equal(snapshot, s):
			t.Errorf("the snapshot lacks %s", path)
		}
	})
}

func use(t *testing.T, r *gpu.Report) (*gpu.Snapshot, ledger.Observation) {
	t.Helper()
	w := newWorld(t)
	w.runs(first, 1, train)
	w.report = r
	return w.ticks(w.sampler(), 1), w.sampler().Observed(*r, w.instant())
}
