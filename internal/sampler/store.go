package sampler

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/internal/state"
)

// store keeps the ledger and its file together.
type store struct {
	cfg Config
	dir *state.Dir // nil while it is not ours
	// failures counts the attempts to take the directory before books were begun.
	failures int
	// ledger is nil while another exporter keeps the books of this node.
	ledger *ledger.Ledger
	// stale is set while the file holds an older state than was shown, and can be
	// neither replaced nor removed.
	stale bool
}

// record is what a line of the file holds: a GPU, or a piece of the books.
type record struct {
	GPU *entry `json:"gpu,omitempty"`
	ledger.Record
}

// content is what was read of the file.
type content struct {
	gpus  map[string]entry // by UUID
	books ledger.Builder
}

func (c *content) add(line json.RawMessage) error {
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		return err
	}
	if r.GPU == nil {
		return c.books.Add(r.Record)
	}
	c.gpus[r.GPU.UUID] = *r.GPU
	return nil
}

// records are the lines of the file. Each is the same variable with another value.
func records(gpus map[string]entry, books ledger.State) iter.Seq[any] {
	return func(yield func(any) bool) {
		var r record
		for _, e := range gpus {
			if r.GPU = &e; !yield(&r) {
				return
			}
		}
		r.GPU = nil
		for r.Record = range books.Records() {
			if !yield(&r) {
				return
			}
		}
	}
}

// patience is how many times the directory is tried before books are begun without
// it: a good file that is late by a moment should be continued.
const patience = 3

// acquire takes the state directory if it is free. It returns the GPUs that an
// earlier exporter knew, when it just continued that one's books.
//
// A directory that another exporter holds keeps this one from charging. One that
// cannot be used at all does not, but then the counters start anew at the next
// restart.
func (s *store) acquire() map[string]entry {
	if s.dir != nil {
		return nil
	}
	began := s.cfg.Now()
	err := s.open()
	switch {
	case errors.Is(err, state.ErrLocked):
		s.ledger = nil
		s.cfg.Stages.Observe(stage.State, began, fmt.Errorf("nothing is charged here: %w", err))
		return nil
	case err != nil:
		s.cfg.Stages.Observe(stage.State, began, err)
		if s.failures++; s.failures >= patience && s.ledger == nil {
			s.ledger = ledger.New(s.cfg.Ledger)
		}
		return nil
	case s.ledger != nil: // what was counted meanwhile is what was shown
		return nil
	}
	return s.load(began)
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
// file, the answer is a clean start: no joule is invented. The identity of GPUs is
// kept even if the books are no good.
func (s *store) load(began gpu.Instant) map[string]entry {
	s.ledger = ledger.New(s.cfg.Ledger)
	c := content{gpus: make(map[string]entry)}
	err := s.dir.Load(c.add)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	gpus := c.gpus
	if err != nil {
		gpus = nil // what was read of it is worth nothing
	} else {
		err = c.books.State.Check(began.Boot)
	}
	if err != nil {
		s.cfg.Stages.Observe(stage.State, began, fmt.Errorf("start with clean books: %w", err))
		return gpus
	}
	s.ledger = ledger.Restore(s.cfg.Ledger, c.books.State)
	return gpus
}

// books returns what was settled, nothing while another exporter keeps the books.
func (s *store) books() ledger.State {
	if s.ledger == nil {
		return ledger.State{}
	}
	return s.ledger.State()
}

// save writes the state, before anything of it is shown. A directory that was
// removed or replaced is given up, to be taken again at the next tick.
func (s *store) save(gpus map[string]entry, books ledger.State) {
	if s.dir == nil {
		return
	}
	began := s.cfg.Now()
	err := s.dir.Save(records(gpus, books))
	s.cfg.Stages.Observe(stage.State, began, err)
	s.stale = errors.Is(err, state.ErrStale)
	if errors.Is(err, state.ErrGone) {
		_ = s.close()
	}
}

func (s *store) close() error {
	if s.dir == nil {
		return nil
	}
	dir := s.dir
	s.dir = nil
	return dir.Close()
}
