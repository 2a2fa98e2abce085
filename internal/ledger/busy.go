package ledger

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// addTimes adds the interval to an account's active time, and the owner's sampled busy time to
// Busy. Late samples may add busy time to an interval that is not active. Therefore Active limits
// the sum of the busy time, and not the busy time of an interval.
func (p *part) addTimes(a *gpu.Account, s *share) {
	if p.isActive(s) {
		a.Active += p.to.At.Sub(p.from.At)
	}
	a.Busy = min(a.Busy+p.busyTime(s), a.Active)
}

// busyTime returns the sampled busy time of an owner: the sum over its processes. If processes have
// no samples, it is the busy time of the GPU or MIG instance that the owner uses alone. The work of
// an MPS server is not included, because the shares of its clients are unknown.
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
