package ledger

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// addTimes adds the interval to an account's active time, and adds the owner's sampled busy time to Busy. Late
// samples can add busy time to an interval in which the account is not active. Therefore the busy time of a single
// interval is not limited to its active time, but the account's total busy time is limited to its total active
// time.
func (p *part) addTimes(a *gpu.Account, s *share) {
	if p.isActive(s) {
		a.Active += p.to.At.Sub(p.from.At)
	}
	a.Busy = min(a.Busy+p.busyTime(s), a.Active)
}

// busyTime returns the sampled busy time of an owner, which is the sum over the owner's processes.
// If there are no samples of the processes and the owner uses the GPU or MIG instance alone, the
// owner's busy time is the busy time of the GPU or MIG instance. The work of an MPS server is not
// included, because the shares of the server's clients are unknown.
func (p *part) busyTime(s *share) time.Duration {
	took := p.span().Len()
	switch {
	case p.gap || p.timeless || s.vanished:
		return 0
	case p.mig == nil && p.signal || s != p.sole():
		return min(s.activity-s.served, took)
	case p.mig != nil:
		return p.active
	}
	share, _ := p.busyShare()
	return time.Duration(share * float64(took))
}
