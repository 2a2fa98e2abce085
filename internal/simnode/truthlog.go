package simnode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// maxLog is the size in bytes at which a growing file is rotated or truncated.
const maxLog = 64 << 20

// sparse is the number of steps between two rows of the sparse history.
const sparse = int64(10 * time.Second / step)

// truthLog replaces the file with the newest row, and appends rows to two histories. It is not safe for concurrent use.
type truthLog struct {
	newest          string
	dense, sparsely *growing
	last            []byte
}

func openTruthLog(dir string) (*truthLog, error) {
	dense, err := create(dir, "truth")
	if err != nil {
		return nil, err
	}
	sparsely, err := create(dir, "truth-10s")
	return &truthLog{newest: filepath.Join(dir, "truth.json"), dense: dense, sparsely: sparsely}, err
}

// add keeps the row of a step until the next flush. If many rows are waiting, add flushes them, so that a long jump in
// time needs little memory. Rows of the sparse history have no processes.
func (l *truthLog) add(t Truth, n int64) error {
	row, err := json.Marshal(t)
	if err != nil {
		return err
	}
	l.last = append(row, '\n')
	l.dense.pending.Write(l.last)
	if n%sparse == 0 {
		t.GPUs = slices.Clone(t.GPUs)
		for i := range t.GPUs {
			t.GPUs[i].Processes = nil
		}
		if row, err = json.Marshal(t); err != nil {
			return err
		}
		l.sparsely.pending.Write(append(row, '\n'))
	}
	if l.dense.pending.Len() > 1<<20 {
		return l.flush()
	}
	return nil
}

func (l *truthLog) flush() error {
	if err := errors.Join(l.dense.flush(), l.sparsely.flush()); err != nil {
		return err
	}
	return replaceFile(l.newest, l.last)
}

func (l *truthLog) close() error { return errors.Join(l.dense.file.Close(), l.sparsely.file.Close()) }

// A growing file gets rows at its end. A rotation keeps the previous file.
type growing struct {
	path, older string

	file    *os.File
	size    int64
	pending bytes.Buffer
}

func create(dir, name string) (*growing, error) {
	g := &growing{path: filepath.Join(dir, name+".jsonl"), older: filepath.Join(dir, name+".1.jsonl")}
	var err error
	g.file, err = os.Create(g.path)
	return g, err
}

func (g *growing) flush() error {
	if g.size > maxLog {
		if err := g.rotate(); err != nil {
			return err
		}
	}
	n, err := g.pending.WriteTo(g.file)
	g.size += n
	return err
}

func (g *growing) rotate() error {
	if err := g.file.Close(); err != nil {
		return err
	}
	if err := os.Rename(g.path, g.older); err != nil {
		return err
	}
	file, err := os.Create(g.path)
	if err != nil {
		return fmt.Errorf("start a new history: %w", err)
	}
	g.file, g.size = file, 0
	return nil
}
