package files

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Write writes a file with the columns of t. They may be the columns of an earlier version.
func Write(w io.Writer, name string, t table.Table, rows [][]any) error {
	i := slices.IndexFunc(formats, func(f format) bool { return f.name == name })
	return formats[i].write(w, t, rows)
}

var ErrStopped = errors.New("the program is stopped")

func Stopping(s *Sink, changes int) *Sink {
	stopped := *s
	stopped.storage = &stopping{s.storage, changes}
	return &stopped
}

func (s *Serials) Stopping(changes int) *Serials {
	at, manifest := &stopping{s.storage, changes}, *s.manifest
	manifest.storage = below{at, "_gpuledger"}
	return &Serials{at, &manifest}
}

type stopping struct {
	storage
	left int
}

func (s *stopping) change() error {
	s.left--
	if s.left < 0 {
		return ErrStopped
	}
	return nil
}

func (s *stopping) write(ctx context.Context, name string, data []byte, tag string) (string, error) {
	if err := s.change(); err != nil {
		return "", err
	}
	return s.storage.write(ctx, name, data, tag)
}

func (s *stopping) remove(ctx context.Context, name string) error {
	if err := s.change(); err != nil {
		return err
	}
	return s.storage.remove(ctx, name)
}

func (s *Sink) LimitIDs(n int) { s.index.limit = n }

func (s *Sink) KnownIDs() (n int) {
	for _, h := range s.index.hours {
		n += len(h.ids)
	}
	return n
}
