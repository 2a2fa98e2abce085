package ledger

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// addTimes limits the total busy time of the account by its total active time. It does not limit each interval, because
// late samples can add busy time to an interval in which the account is not active.
func (p *part) addTimes(a *gpu.Account, s *share) {
	if p.isActive(s) {
		a.Active += p.to.At.Sub(p.from.At)
	}
	a.Busy = min(a.Busy+p.busyTime(s), a.Active)
}

// busyTime returns the sampled busy time of an owner, summed over its processes. Without samples, it returns the busy
// time of the GPU or MIG instance if the owner is alone there. It excludes the work of an MPS server for several
// owners, because the driver does not report which client the server worked for.
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
