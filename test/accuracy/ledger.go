package accuracy

import "github.com/gpuledger/gpuledger/internal/gpu"

// A ledger computes charges as differences between two reads of the GPU's accounts. It reads the final energy of each
// account before the exporter removes the account.
type ledger struct{ last charges }

func (l *ledger) read(b *gpu.Book) charges {
	now := make(charges)
	for _, a := range b.Accounts {
		now[a.Name] += float64(a.Energy.Sum())
	}
	for reason, e := range b.Unattributed {
		if e > 0 {
			now["("+gpu.Reason(reason).String()+")"] += float64(e)
		}
	}
	since := make(charges)
	for owner, e := range now {
		if e > l.last[owner] {
			since[owner] = e - l.last[owner]
		}
	}
	l.last = now
	return since
}
