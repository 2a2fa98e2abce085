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
