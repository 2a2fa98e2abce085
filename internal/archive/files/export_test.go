package files

import (
	"io"
	"slices"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Write writes rows in a format, for tests with files of earlier versions.
func Write(w io.Writer, name string, t table.Table, rows [][]any) error {
	i := slices.IndexFunc(formats, func(f format) bool { return f.name == name })
	return formats[i].write(w, t, rows)
}

// LimitIDs sets the number of ids that a sink keeps in memory.
func (s *Sink) LimitIDs(n int) { s.index.limit = n }

// KnownIDs returns the number of ids in memory.
func (s *Sink) KnownIDs() (n int) {
	for _, h := range s.index.hours {
		n += len(h.ids)
	}
	return n
}
