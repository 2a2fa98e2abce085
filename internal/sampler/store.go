package sampler

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/internal/state"
)

// store keeps the ledger and its file together.
type store struct {
	cfg Config
	dir *state.Dir // nil while it is not ours
	// ledger is nil while another exporter keeps the books of this node.
	ledger *ledger.Ledger
	// roster is what the file knew of the node's GPUs when it was loaded.
	roster map[string]entry
	// shown are the books as they were last shown. They stay as they are while an
	// older file can be neither replaced nor removed (frozen): a restart would
	// continue from that file, and no counter may fall.
	shown  map[string]*gpu.Book
	frozen bool
}

// content is what the file holds.
type content struct {
	GPUs   map[string]entry `json:"gpus"`
	Ledger ledger.State     `json:"ledger"`
}

func newStore(cfg Config) store { return store{cfg: cfg} }

// acquire takes the state directory if it is free, and reports whether it just
// loaded what an earlier exporter saved. Only a directory that another exporter
// holds keeps this one from charging. One that cannot be used at all does not, but
// then the counters start anew at the next restart.
func (s *store) acquire() (loaded bool) {
	if s.dir != nil {
		return false
	}
	began, begin := s.cfg.Now(), s.ledger == nil
	err := s.open()
	if begin && errors.Is(err, state.ErrLocked) {
		s.cfg.Stages.Observe(stage.State, began, fmt.Errorf("nothing is charged here: %w", err))
		return false
	}
	if begin {
		s.ledger = ledger.New(s.cfg.Ledger)
	}
	if err != nil {
		s.cfg.Stages.Observe(stage.State, began, err)
		return false
	}
	return begin && s.load(began)
}

func (s *store) open() error {
	boot, err := s.cfg.Host.BootID()
	if err != nil {
		return err
	}
	s.dir, err = state.Open(s.cfg.StatePath, boot)
	return err
}

// load continues the books of an earlier exporter. Whatever is wrong with the
// file, the answer is a clean start: no joule is invented.
func (s *store) load(began gpu.Instant) bool {
	var c content
	err := s.dir.Load(&c)
	if err == nil {
		err = c.Ledger.Check()
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.cfg.Stages.Observe(stage.State, began, fmt.Errorf("start with clean books: %w", err))
		}
		return false
	}
	s.ledger, s.roster = ledger.Restore(s.cfg.Ledger, c.Ledger), c.GPUs
	return true
}

// save writes the state, before anything of it is shown.
func (s *store) save(gpus map[string]entry) {
	if s.dir == nil {
		return
	}
	began := s.cfg.Now()
	err := s.dir.Save(content{GPUs: gpus, Ledger: s.ledger.State()})
	s.cfg.Stages.Observe(stage.State, began, err)
	s.frozen = errors.Is(err, state.ErrStale)
}

// books returns the books that may be shown.
func (s *store) books(now gpu.Instant) map[string]*gpu.Book {
	if s.ledger != nil && !s.frozen {
		s.shown = s.ledger.Books(now)
	}
	return s.shown
}

func (s *store) close() error {
	if s.dir == nil {
		return nil
	}
	return s.dir.Close()
}
