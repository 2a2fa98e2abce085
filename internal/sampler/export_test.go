package sampler

// HoldOpening makes the next attempt to take the state directory wait for release.
func (s *Sampler) HoldOpening(release <-chan struct{}) {
	cfg := s.cfg
	s.store.opening.Begin(func() opened {
		<-release
		return open(cfg, true)
	})
}

// HoldSaving occupies the file system, as a save does that hangs until release and returns
// err then.
func (s *Sampler) HoldSaving(release <-chan struct{}, err error) {
	s.store.saving.Begin(func() error {
		<-release
		return err
	})
}
