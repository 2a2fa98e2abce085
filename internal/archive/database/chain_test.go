package database_test

import (
	"database/sql"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/draws"
)

// rawSQLite reads and changes a file without this package.
type rawSQLite struct {
	*testing.T
	db *sql.DB
}

func (r rawSQLite) Rows(of table.Table) [][]string { return tablesOf(r.T, r.db)(of) }

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
		return sinktest.ChainPlace{Sink: d, Raw: rawSQLite{t, raw}, Read: func() chain.Source { return r }, Manipulations: draws.Of(75, 1000)}
	})
}

// During the test, several programs write to the file at the same time.
func TestSQLiteChainConcurrent(t *testing.T) {
	path := t.TempDir() + "/archive.db"
	sinktest.TestChainConcurrent(t, func() sinktest.Chained { return openSQLite(t, path) }, func() chain.Source {
		r, err := database.SQLite.OpenReader(t.Context(), path, "")
		check(t, err)
		t.Cleanup(func() { check(t, r.Close()) })
		return r
	})
}

// No entry of the chain covers daily sums, but statements for long periods read them. A changed daily sum must be found
// even if the total of the day is unchanged.
func TestSQLiteChainDays(t *testing.T) {
	for _, change := range []string{
		"",
		"update days set team = case team when 'blue' then 'red' else 'blue' end",
		"update days set energy_mj = energy_mj + case team when 'blue' then 1 else -1 end",
		"update days set labels = 'cost_center=1' where team = 'red'",
		"update gpu_days set model = 'T4'",
		"update gpu_days set serial = 'S2'",
		"update gpu_days set first_seen = '2026-02-01T00:00:00.000Z'",
		"delete from days where team = 'red'",
		"update days set day = '2026-03-02'",
		"update gpu_days set cluster = 'west'",
		"update days set tensor_active_ms = 0 where team = 'blue'",   // the correct value is null
		"update days set tensor_active_ms = null where team = 'red'", // the correct value is 0
	} {
		path := t.TempDir() + "/archive.db"
		d := openSQLite(t, path)
		d.SignWith(sinktest.KeyFiles(t, t.TempDir()+"/key.pem", t.TempDir()+"/public.pem"))
		for n := range 3 {
			h := sinktest.Hour(sinktest.Noon.Add(time.Duration(n)*time.Hour), 100)
			red := h.Charges[0]
			red.Team, red.Pod, red.PodUID, red.Began, red.Ended = "red", "r", "r", time.Time{}, time.Time{}
			red.Profiled, red.TensorActive, red.DRAMActive = new(int64(5)), new(int64(0)), new(int64(1))
			h.Charges = append(h.Charges, red)
			check(t, d.Replace(t.Context(), sinktest.Complete(h)))
		}
		if change != "" {
			raw, err := sql.Open("sqlite", path)
			check(t, err)
			result, err := raw.ExecContext(t.Context(), change)
			check(t, err)
			if n, err := result.RowsAffected(); n == 0 || err != nil {
				t.Errorf("%s changes %d rows, error %v", change, n, err)
			}
			check(t, raw.Close())
		}
		r, err := database.SQLite.OpenReader(t.Context(), path, "")
		check(t, err)
		reports, err := chain.Check{}.Verify(t.Context(), r)
		check(t, err)
		check(t, r.Close())
		if found := slices.ContainsFunc(reports, func(r chain.Report) bool { return len(r.Problems) > 0 }); found != (change != "") {
			t.Errorf("after %q: %+v", change, reports)
		}
	}
}

// TestSQLiteChainUnprofiled upgrades a database in which the daily sums of removed profiled time are 0, as in the version
// before. The chain must have no problems.
func TestSQLiteChainUnprofiled(t *testing.T) {
	path := t.TempDir() + "/archive.db"
	d := openSQLite(t, path)
	d.SignWith(sinktest.KeyFiles(t, t.TempDir()+"/key.pem", t.TempDir()+"/public.pem"))
	h := sinktest.Hour(sinktest.Noon, 100)
	profiled := slices.Clone(h.Charges)
	profiled[0].Profiled, profiled[0].TensorActive, profiled[0].DRAMActive = new(int64(5)), new(int64(2)), new(int64(1))
	h.Charges = profiled
	check(t, d.Replace(t.Context(), sinktest.Complete(h)))
	next := sinktest.Hour(sinktest.Noon, 100)
	next.Revision, next.State, next.Corrections = 2, table.Corrected, table.Difference(profiled, next.Charges)
	check(t, d.Correct(t.Context(), next))
	check(t, d.Close())
	raw, err := sql.Open("sqlite", path)
	check(t, err)
	for _, text := range []string{"update days set profiled_ms = 0, tensor_active_ms = 0, dram_active_ms = 0", "update schema_version set version = 8"} {
		_, err = raw.ExecContext(t.Context(), text)
		check(t, err)
	}
	check(t, raw.Close())
	check(t, openSQLite(t, path).Close())
	r, err := database.SQLite.OpenReader(t.Context(), path, "")
	check(t, err)
	reports, err := chain.Check{}.Verify(t.Context(), r)
	check(t, err)
	check(t, r.Close())
	if slices.ContainsFunc(reports, func(r chain.Report) bool { return len(r.Problems) > 0 }) {
		t.Errorf("after the upgrade: %+v", reports)
	}
}
