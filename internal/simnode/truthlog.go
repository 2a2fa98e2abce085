package simnode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// maxLog is the size at which a growing file is rotated or truncated, in bytes.
const maxLog = 64 << 20

// truthLog writes the truth: the newest row by replacing a file, and the history by appending to
// one. It is not safe for concurrent use.
type truthLog struct {
	newest, history, older string

	file    *os.File
	size    int64
	pending bytes.Buffer
	last    []byte
}

func openTruthLog(dir string) (*truthLog, error) {
	l := &truthLog{
		newest:  filepath.Join(dir, "truth.json"),
		history: filepath.Join(dir, "truth.jsonl"),
		older:   filepath.Join(dir, "truth.1.jsonl"),
	}
	var err error
	l.file, err = os.Create(l.history)
	return l, err
}

// add keeps a row until the next flush. If there are many rows, it flushes them, so that a long
// jump in time needs little memory.
func (l *truthLog) add(t Truth) error {
	row, err := json.Marshal(t)
	if err != nil {
		return err
	}
	l.last = append(row, '\n')
	l.pending.Write(l.last)
	if l.pending.Len() > 1<<20 {
		return l.flush()
	}
	return nil
}

func (l *truthLog) flush() error {
	if l.size > maxLog {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	n, err := l.pending.WriteTo(l.file)
	l.size += n
	if err != nil {
		return err
	}
	return replaceFile(l.newest, l.last)
}

// rotate renames the history and starts a new one.
func (l *truthLog) rotate() error {
	if err := l.file.Close(); err != nil {
		return err
	}
	if err := os.Rename(l.history, l.older); err != nil {
		return err
	}
	file, err := os.Create(l.history)
	if err != nil {
		return fmt.Errorf("start a new history: %w", err)
	}
	l.file, l.size = file, 0
	return nil
}

func (l *truthLog) close() error { return l.file.Close() }
