package database_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// After random changes, the daily sums must equal the sums of the hours. The views read the daily sums. They must
// return the same rows as the earlier views, which read the hours.
func TestDays(t *testing.T) {
	text, err := os.ReadFile("testdata/views_of_hours.sql")
	check(t, err)
	var db *sql.DB
	open := func(t *testing.T) (sinktest.Renamer, sinktest.Rows) {
		d, path := fresh(t)
		db = connect(t, path)
		return d, tablesOf(t, db)
	}
	sinktest.TestDays(t, open, func(t *testing.T) {
		for query := range strings.SplitSeq(strings.TrimSpace(string(text)), ";\n") {
			name, of, _ := strings.Cut(strings.TrimPrefix(query, "-- "), "\n")
			want, got := linesOf(t, db, strings.TrimSuffix(of, ";")), linesOf(t, db, "select * from "+name)
			for i := range min(len(got), len(want)) {
				got[i] = got[i][:len(want[i])] // new columns are the last columns of a view
			}
			slices.SortFunc(want, slices.Compare)
			slices.SortFunc(got, slices.Compare)
			if diff := sinktest.Diff(want, got); diff != "" {
				t.Errorf("%s (-of hours +of days):\n%s", name, diff)
			}
		}
	})
}

// When a program opens a database, it must add up the days in which another program wrote or deleted hours. It must add
// up all days of a database without daily sums.
func TestRepair(t *testing.T) {
	d, path := fresh(t)
	for n := range 36 { // the last hour is the last hour of a day
		h := sinktest.Hour(sinktest.Noon.Add(time.Duration(n)*time.Hour), int64(n)+1)
		h.Charges[0].Queue, h.Charges[0].ClusterQueue, h.Charges[0].Labels = "", "", "" // the first version has no queues and labels
		check(t, d.Replace(t.Context(), h))
	}
	query := func(of table.Table) [][]string { return lines(t, path, "select * from "+of.Name+" order by day") }
	want := [][][]string{query(table.Days), query(table.GPUDays)}
	for _, change := range []string{
		"delete from days", "delete from gpu_days",
		"delete from days where day = '2026-03-02'; delete from gpu_days where day = '2026-03-01'",
		"update days set energy_mj = energy_mj + 1 where day = '2026-03-02'; update gpu_days set energy_mj = 0 where day = '2026-03-01'", // hours are replaced
		"insert into days select 'west', day, " + strings.Join(table.Days.Names()[2:], ", ") + " from days",                              // the hours of west are deleted
		firstVersion,
	} {
		check(t, d.Close())
		if change == firstVersion {
			path = inFirstVersion(t, path)
		} else {
			lines(t, path, change)
		}
		var err error
		d, err = database.SQLite.Open(t.Context(), path, "")
		check(t, err)
		if diff := cmp.Diff(want, [][][]string{query(table.Days), query(table.GPUDays)}); diff != "" {
			t.Errorf("after %s (-before +after):\n%s", change, diff)
		}
	}
	check(t, d.Close())
}

// The test deletes the row of an hour in the manifest, and writes the hour again. The energy of the hour must be
// counted once.
func TestUncounted(t *testing.T) {
	d, path := fresh(t)
	h := sinktest.Hour(sinktest.Noon, 7)
	check(t, d.Replace(t.Context(), h))
	lines(t, path, "delete from hours")
	check(t, d.Replace(t.Context(), h))
	for _, name := range []string{"days", "gpu_days"} {
		if diff := cmp.Diff([][]string{{"1", "7"}}, lines(t, path, "select sum(hours), sum(energy_mj) from "+name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// For a corrected hour, the numbers in the manifest differ from the sums of the hour's rows. A program that opens the
// database must not add up such a day again. It must find a daily sum that lacks a correction.
func TestRepairOfCorrections(t *testing.T) {
	d, path := fresh(t)
	for n := range 24 {
		check(t, d.Replace(t.Context(), sinktest.Hour(sinktest.Noon.Add(time.Duration(n)*time.Hour), 7)))
	}
	h := sinktest.Hour(sinktest.Noon, 7)
	h.Charges[0].Energy = 5
	h.Charges = append(h.Charges, table.Charge{Node: "a", UUID: "GPU-1", Serial: "S1", Reason: "idle", Energy: 2})
	before, err := d.Charges(t.Context(), h.Cluster, h.Start)
	check(t, err)
	h.Revision, h.State, h.Corrections = 2, table.Corrected, table.Difference(before, h.Charges)
	check(t, d.Correct(t.Context(), h))
	check(t, d.Replace(t.Context(), sinktest.Hour(sinktest.Noon.AddDate(0, 0, 1), 7))) // this day has the highest rowid, so new sums of other days have new rowids
	rows := func() [][]string { return lines(t, path, "select rowid, * from days order by rowid") }
	want := rows()
	reopen := func() {
		check(t, d.Close())
		d, err = database.SQLite.Open(t.Context(), path, "")
		check(t, err)
	}
	reopen()
	if diff := cmp.Diff(want, rows()); diff != "" {
		t.Errorf("after a start (-before +after):\n%s", diff)
	}
	lines(t, path, "delete from days where reason = 'idle'")
	reopen()
	if got := lines(t, path, "select sum(energy_mj) from days where reason = 'idle'"); got[0][0] != "2" {
		t.Errorf("%s mJ are idle, want 2", got[0][0])
	}
	check(t, d.Close())
}

// In this case, the database is changed back to its first schema, which has no daily sums.
const firstVersion = "a return to the first version"

func inFirstVersion(t *testing.T, path string) string {
	old := filepath.Join(t.TempDir(), "old.db")
	tables, err := os.ReadFile("migrations/sqlite/001_tables.sql")
	check(t, err)
	lines(t, old, string(tables))
	for _, of := range lines(t, old, "select name from sqlite_schema where type = 'table' and name <> 'schema_version'") {
		var names []string
		for _, column := range lines(t, old, "select name from pragma_table_info('"+of[0]+"')") {
			names = append(names, column[0])
		}
		lines(t, old, fmt.Sprintf("attach '%s' as new; insert into main.%s select %s from new.%[2]s", path, of[0], strings.Join(names, ", ")))
	}
	lines(t, old, "insert into schema_version values (1)")
	return old
}
