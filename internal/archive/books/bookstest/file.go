package bookstest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Kinds lists the kinds of archives that [File] can write: the file formats, and sqlite.
var Kinds = append(files.Formats(), database.SQLite.Name)

type sink interface {
	Replace(ctx context.Context, h *table.Hour) error
	Correct(ctx context.Context, h *table.Hour) error
	Close() error
}

// File writes hours to a new archive of the given kind, and returns its path. It completes hours that have no revision.
// It corrects hours that have corrections.
func File(t testing.TB, kind string, hours ...*table.Hour) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "archive")
	var to sink
	var err error
	if kind == database.SQLite.Name {
		to, err = database.SQLite.Open(t.Context(), path, "")
	} else {
		to, err = files.Open(path, []string{kind})
	}
	must(t, err)
	for _, h := range hours {
		if h.Revision == 0 {
			sinktest.Complete(h)
		}
		if h.Corrections != nil {
			must(t, to.Correct(t.Context(), h))
			continue
		}
		must(t, to.Replace(t.Context(), h))
	}
	must(t, to.Close())
	return path
}

// Open opens an archive that [File] wrote.
func Open(t testing.TB, path string) books.Source {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	open := books.OpenSQLite
	if info.IsDir() {
		open = books.OpenFolder
	}
	source, err := open(t.Context(), path)
	must(t, err)
	return source
}
