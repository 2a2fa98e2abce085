package sampler

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
	s.store.saving.Begin(func() error {
		<-release
		return err
	})
}
