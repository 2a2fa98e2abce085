package simnode

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// accounting simulates the driver's accounting mode. For every process on a GPU, it counts the samples during the life
// of the process. It also adds up the percentages of the samples that name the process.
type accounting struct {
	kept  []sums
	shown []sums // updated once a second
}

type sums struct {
	id         gpu.ProcessID
	samples    int
	sm, memory int           // sums of percentages
	last       time.Duration // last time at which the process was present, since the start
}

// accountingSpan has no real counterpart: a real driver limits the number of accounts of ended processes, not their
// age.
const (
	accountingPeriod = time.Second
	accountingSpan   = time.Minute
)

// record adds the samples of the step that ends at until.
func (a *accounting) record(until time.Duration, taken []sample, loads []load) {
	for _, l := range loads {
		k := a.sumsOf(l.process.id)
		k.samples += len(taken)
		k.last = until
		for _, s := range taken {
			if s.pid == k.id.PID {
				k.sm += s.busy
				k.memory += s.memory
			}
		}
	}
	if until%accountingPeriod == 0 {
		a.kept = slices.DeleteFunc(a.kept, func(k sums) bool { return until-k.last > accountingSpan })
		a.shown = slices.Clone(a.kept)
	}
}

func (a *accounting) sumsOf(id gpu.ProcessID) *sums {
	i := slices.IndexFunc(a.kept, func(k sums) bool { return k.id == id })
	if i < 0 {
		i, a.kept = len(a.kept), append(a.kept, sums{id: id})
	}
	return &a.kept[i]
}

// The start time of a process is in hundredths of a second since boot.
func writeAccounts(r *record, w *world, b *board) {
	boot := w.start.Wall.Add(-w.start.Boot)
	for _, k := range b.accounts.shown {
		began := boot.Add(time.Duration(k.id.Start) * 10 * time.Millisecond)
		r.line("account", "gpu", b.UUID, "pid", k.id.PID, "start", began.UnixMicro(), "running", flag(w.elapsed()-k.last < accountingPeriod),
			"count", k.samples, "gr", 100*k.sm, "fb", 100*k.memory)
	}
}
