package database_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// rawSQLite changes a file without this package.
type rawSQLite struct {
	*testing.T
	path string
	db   *sql.DB
}

func (r rawSQLite) Rows(of table.Table) [][]string { return tablesOf(r.T, r.path)(of) }

func (r rawSQLite) Replace(of table.Table, rows [][]string) {
	r.Helper()
	tx, err := r.db.BeginTx(r.Context(), nil)
	check(r.T, err)
	_, err = tx.ExecContext(r.Context(), "delete from "+of.Name)
	check(r.T, err)
	for _, row := range rows {
		values := make([]any, len(row))
		for i, text := range row {
			if values[i] = text; text == "" && (of.Columns[i].Type == table.Time || of.Columns[i].Type == table.OptionalInt) {
				values[i] = nil
			}
		}
		names := strings.Join(of.Names(), ", ")
		_, err := tx.ExecContext(r.Context(), "insert into "+of.Name+" ("+names+") values (?"+strings.Repeat(", ?", len(values)-1)+")", values...)
		check(r.T, err)
	}
	check(r.T, tx.Commit())
}

// TestSQLiteChain runs the acceptance test of chains.
func TestSQLiteChain(t *testing.T) {
	sinktest.TestChain(t, func(t *testing.T) sinktest.ChainPlace {
		path := t.TempDir() + "/archive.db"
		d := openSQLite(t, path)
		raw, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(off)&_pragma=busy_timeout(10000)")
		check(t, err)
		t.Cleanup(func() { check(t, raw.Close()) })
		r, err := database.SQLite.OpenReader(t.Context(), path, "")
		check(t, err)
		t.Cleanup(func() { check(t, r.Close()) })
		return sinktest.ChainPlace{Sink: d, Raw: rawSQLite{t, path, raw}, Read: func() chain.Source { return r }, Manipulations: 1000}
	})
}

// TestSQLiteChainConcurrent checks a file that programs share.
func TestSQLiteChainConcurrent(t *testing.T) {
	path := t.TempDir() + "/archive.db"
	sinktest.TestChainConcurrent(t, func() sinktest.Chained { return openSQLite(t, path) }, func() chain.Source {
		r, err := database.SQLite.OpenReader(t.Context(), path, "")
		check(t, err)
		t.Cleanup(func() { check(t, r.Close()) })
		return r
	})
}
