package proc

import (
	"errors"
	"os"
	"sync/atomic"
)

// ErrBlind means that the tree does not list the processes of the machine.
var ErrBlind = errors.New("the proc file system is missing or does not list process 1")

// A Sight detects whether a tree lists the machine's processes. If the proc file system is empty, hidden or not
// mounted, a process that is missing from the tree may still run.
type Sight struct {
	Tree
	sawFirst atomic.Bool
}

// Blind reports whether the tree is missing, or no longer lists process 1. Process 1 never ends.
func (s *Sight) Blind() bool {
	_, err := s.Stat(1)
	switch {
	case err == nil:
		s.sawFirst.Store(true)
		return false
	case s.sawFirst.Load():
		return true
	}
	_, err = os.Stat(s.Root)
	return err != nil
}

// Check returns [ErrBlind] if [Sight.Blind] returns true.
func (s *Sight) Check() error {
	if s.Blind() {
		return ErrBlind
	}
	return nil
}
