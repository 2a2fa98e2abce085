package simnode

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// accounting is what the driver keeps of every process on a GPU: how many samples it
// took in the process's life, and the sums of those that name it. It is brought up to
// date once a second.
type accounting struct {
	kept  []kept
	shown []kept // as of the last update
}

// kept is one process's account.
type kept struct {
	id         gpu.ProcessID
	samples    int
	sm, memory int           // sums of percent
	last       time.Duration // when it was last there, since the start
}

// accountingPeriod is the time between updates, accountingSpan for how long an account
// stays: drivers forget by number.
const (
	accountingPeriod = time.Second
	accountingSpan   = time.Minute
)

// record takes in the samples of one step that ends at a time, in which the given
// loads were there.
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
		a.kept = slices.DeleteFunc(a.kept, func(k kept) bool { return until-k.last > accountingSpan })
		a.shown = slices.Clone(a.kept)
	}
}

// sumsOf returns the account sumsOf a process, which is empty at first.
func (a *accounting) sumsOf(id gpu.ProcessID) *kept {
	i := slices.IndexFunc(a.kept, func(k kept) bool { return k.id == id })
	if i < 0 {
		i, a.kept = len(a.kept), append(a.kept, kept{id: id})
	}
	return &a.kept[i]
}

// writeAccounts adds the accounts that the driver shows of a board. A process's start
// is counted in hundredths of a second since boot.
func writeAccounts(r *record, w *world, b *board) {
	boot := w.start.Wall.Add(-w.start.Boot)
	for _, k := range b.accounts.shown {
		began := boot.Add(time.Duration(k.id.Start) * 10 * time.Millisecond)
		r.line("account", "gpu", b.UUID, "pid", k.id.PID, "start", began.UnixMicro(), "running", flag(w.elapsed()-k.last < accountingPeriod),
			"count", k.samples, "gr", 100*k.sm, "fb", 100*k.memory)
	}
}
