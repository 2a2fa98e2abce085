package ledger

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Late samples can add busy time to an interval in which the account is not active. Therefore the busy time is limited
// by the total active time of the account, not by the active time of each interval.
func (p *part) addTimes(a *gpu.Account, s *share) {
	if p.isActive(s) {
		a.Active += p.to.At.Sub(p.from.At)
	}
	a.Busy = min(a.Busy+p.busyTime(s), a.Active)
}

// busyTime returns the sampled busy time of an owner, summed over its processes. If there are no samples and the owner
// is alone on the GPU or MIG instance, it returns the busy time of the GPU or instance. It excludes the work of an MPS
// server, because the shares of the server's clients are unknown.
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
