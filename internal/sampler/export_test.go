package sampler

import (
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// Observed returns the observation that the sampler would pass to the ledger for the only GPU in a report.
func (s *Sampler) Observed(report gpu.Report, now gpu.Instant) ledger.Observation {
	s.gpus.update(report, now)
	s.modules.divide(&s.gpus, report.Readings)
	r := report.Readings[0]
	v := view{now: now, report: report, processes: map[string]processUsage{r.UUID: s.processes.resolve(r, s.holdsGPU)}}
	return observation(s.gpus.device(r.UUID), r, v)
}

// HoldOpening blocks the next attempt to open the state directory until release is closed.
func (s *Sampler) HoldOpening(release <-chan struct{}) {
	cfg := s.cfg
	s.store.opening.Begin(func() opened {
		<-release
		return open(cfg, true)
	})
}

// HoldSaving starts a save that hangs until release is closed and then returns err.
func (s *Sampler) HoldSaving(release <-chan struct{}, err error) {
	s.store.saving.Begin(func() saved {
		<-release
		return saved{err: err}
	})
}
