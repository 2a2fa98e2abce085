package database_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/permanent"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/event"
	"github.com/gpuledger/gpuledger/test/fatal"
)

func openSQLite(t *testing.T, path string) *database.Database {
	t.Helper()
	d, err := database.SQLite.Open(t.Context(), path, "")
	check(t, err)
	t.Cleanup(func() { check(t, d.Close()) })
	return d
}

// The name of this file contains characters with a meaning in URLs.
func fresh(t *testing.T) (*database.Database, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "new folder", "50% #1?.db")
	return openSQLite(t, path), path
}

// lines does not use this package, so it can find errors in the package.
func lines(t *testing.T, path, query string) [][]string {
	t.Helper()
	db := connect(t, path)
	defer db.Close()
	return linesOf(t, db, query)
}

// Tests reuse a connection where possible, because each new connection parses the whole schema.
func connect(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path))
	check(t, err)
	t.Cleanup(func() { check(t, db.Close()) })
	return db
}

func linesOf(t *testing.T, db *sql.DB, query string) (all [][]string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%v in\n%s", err, query)
	}
	defer rows.Close()
	names, err := rows.Columns()
	check(t, err)
	for rows.Next() {
		row, targets, texts := make([]any, len(names)), make([]any, len(names)), make([]string, len(names))
		for i := range row {
			targets[i] = &row[i]
		}
		check(t, rows.Scan(targets...))
		for i, value := range row {
			if value != nil {
				texts[i] = fmt.Sprint(value)
			}
		}
		all = append(all, texts)
	}
	check(t, rows.Err())
	return all
}

var check = fatal.If

func tablesOf(t *testing.T, db *sql.DB) sinktest.Rows {
	return func(of table.Table) [][]string {
		return linesOf(t, db, "select "+strings.Join(of.Names(), ", ")+" from "+of.Name)
	}
}

func opened[S any](t *testing.T) (S, sinktest.Rows) {
	t.Helper()
	d, path := fresh(t)
	return any(d).(S), tablesOf(t, connect(t, path))
}

func TestSQLite(t *testing.T) {
	sinktest.Test(t, func(t *testing.T) sinktest.Sink {
		d, _ := fresh(t)
		return d
	})
	t.Run("append", func(t *testing.T) { sinktest.TestAppend(t, opened[sinktest.Appender]) })
	t.Run("prune", func(t *testing.T) { sinktest.TestPrune(t, opened[sinktest.Pruner]) })
	t.Run("rename", func(t *testing.T) { sinktest.TestRename(t, opened[sinktest.Renamer]) })
}

// A single SQLite statement cannot contain all values of this hour.
func TestSQLiteLarge(t *testing.T) {
	d, path := fresh(t)
	h := sinktest.Hour(sinktest.Noon, 7)
	for i := range 2000 {
		c := h.Charges[0]
		c.PodUID = fmt.Sprint(i)
		h.Charges = append(h.Charges, c)
	}
	check(t, d.Replace(t.Context(), h))
	if diff := cmp.Diff([][]string{{"2001"}}, lines(t, path, "select count(*) from charges")); diff != "" {
		t.Errorf("charges (-want +got):\n%s", diff)
	}
}

// If several programs write the same hours to a file, they must wait for each other.
func TestSQLiteConcurrent(t *testing.T) {
	first, path := fresh(t)
	failed := make(chan error)
	for n := range 4 {
		d := first
		if n > 0 {
			d = openSQLite(t, path)
		}
		go func() {
			var err error
			for i := 0; err == nil && i < 20; i++ {
				err = d.Replace(t.Context(), sinktest.Hour(sinktest.Noon.Add(time.Duration(i%5)*time.Hour), int64(i)))
			}
			failed <- err
		}()
	}
	for range 4 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([][]string{{"5", "5", "85"}}, lines(t, path, "select count(*), count(distinct hour), sum(energy_mj) from charges")); diff != "" {
		t.Errorf("charges (-want +got):\n%s", diff)
	}
}

// TestSQLiteCreate checks that a program waits while another program creates the same file. SQLite itself does not wait
// in this case, because the file is not yet in WAL mode.
func TestSQLiteCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive.db")
	other, err := connect(t, path).BeginTx(t.Context(), nil)
	check(t, err)
	_, err = other.ExecContext(t.Context(), "create table other (x)")
	check(t, err)
	failed := make(chan error)
	for range 4 {
		go func() {
			d, err := database.SQLite.Open(t.Context(), path, "")
			if err == nil {
				err = d.Close()
			}
			failed <- err
		}()
	}
	select {
	case err := <-failed:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	check(t, other.Commit())
	for range 4 {
		check(t, <-failed)
	}
}

// If no program has the file open, a user without write access to the folder must be able to read it.
func TestSQLiteOtherUser(t *testing.T) {
	d, path := fresh(t)
	check(t, d.Replace(t.Context(), sinktest.Hour(sinktest.Noon, 7)))
	check(t, d.Close())
	folder := filepath.Dir(path)
	check(t, os.Chmod(folder, 0o555))
	t.Cleanup(func() { check(t, os.Chmod(folder, 0o755)) })
	if os.Getuid() == 0 { // root may write to every folder
		check(t, os.Chmod(filepath.Dir(filepath.Dir(folder)), 0o755))
		runtime.LockOSThread()
		check(t, syscall.Setfsuid(65534))
		defer func() {
			check(t, syscall.Setfsuid(0))
			runtime.UnlockOSThread()
		}()
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip("other users cannot read the folder of temporary files:", err)
	}
	r, err := database.SQLite.OpenReader(t.Context(), path, "")
	check(t, err)
	defer r.Close()
	var found []string
	check(t, r.Rows(t.Context(), database.SQL("select node from {charges}"), []table.Type{table.Text}, func(row []table.Cell) bool {
		found = append(found, row[0].Text)
		return true
	}))
	if diff := cmp.Diff([]string{"a"}, found); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func TestSQLiteViews(t *testing.T) {
	d, path := fresh(t)
	older := sinktest.Hour(sinktest.Noon, 7)
	older.Charges[0].Began, older.Charges[0].Ended = time.Time{}, time.Time{} // earlier versions wrote such rows
	check(t, d.Replace(t.Context(), older))
	check(t, d.Replace(t.Context(), sinktest.Hour(sinktest.Noon.Add(time.Hour), 5)))
	var events []event.Event
	for i, e := range []struct{ kind, details string }{
		{"phase", `{"to":"Pending"}`}, {"failure", `{"restarts":3}`}, {"phase", `{"to":"Running"}`}, {"condition", `{"condition":"Ready","to":"True"}`}, {"condition", `{"condition":"Ready","to":"False"}`},
	} {
		events = append(events, event.Event{Kind: e.kind, ID: fmt.Sprint(i), At: sinktest.Noon.Add(time.Duration(i) * time.Second), Namespace: "ml", Pod: "p", PodUID: "u", Details: json.RawMessage(e.details)})
	}
	events = append(events, event.Event{Kind: event.Snapshot, ID: "s", At: sinktest.Noon, Pod: "p", PodUID: "u", Object: json.RawMessage(`{"spec":{"a":"1"},"metadata":"m"}`)})
	for _, of := range table.Appended {
		check(t, d.Append(t.Context(), of, table.EventRows(of, sinktest.Cluster, table.Place(events, sinktest.Noon))))
	}
	for query, want := range map[string][][]string{
		"select day, energy_mj from statements":                                                {{"2026-03-01", "12"}},
		"select first_hour, last_hour, began, ended, energy_mj from allocations":               {{"2026-03-01T12:00:00.000Z", "2026-03-01T13:00:00.000Z", "2026-03-01T12:00:00.000Z", "2026-03-01T13:59:00.000Z", "12"}},
		"select node, stay, start_event, first_seen, missing_since, energy_mj from placements": {{"a", "1", "seen", "2026-03-01T12:00:01.000Z", "", "12"}},
		"select event, uuid, serial from board_events":                                         {{"seen", "GPU-1", "S1"}},
		"select machine, gpu from serials":                                                     {{"vm-1", "S1"}, {"vm-1", "S1"}},
		"select kind, uid, created_at, end_at from gpu_workload":                               {{"Job", "w", "2026-03-01T12:00:00.000Z", ""}},
		"select uid, gpu_allocated, end_at from pod_resource":                                  {{"u", "1", ""}},
		"select name, gpu_allocated, running, deleted from gpu_pods":                           {{"p", "1", "1", "0"}},
		"select workload_uid, pod_uid from workload_pod_reference":                             {{"w", "u"}},
		"select name, pod_phase, event_type, restart_count from gpu_pods_event order by created_at": {
			{"p", "Pending", "phase", "0"}, {"p", "Pending", "failure", "3"}, {"p", "Running", "phase", "3"}, {"p", "Running", "Ready", "3"},
		},
		"select spec, metadata from pod_snapshot": {{`{"a":"1"}`, `"m"`}},
	} {
		if diff := cmp.Diff(want, lines(t, path, query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	silent := sinktest.Hour(sinktest.Noon.Add(2*time.Hour), 0)
	silent.GPUs, silent.Charges, silent.Pods, silent.Workloads = nil, nil, nil, nil
	check(t, d.Replace(t.Context(), silent))
	for query, want := range map[string][][]string{
		"select event from board_events where event <> 'seen'": {{"silent"}},
		"select end_at from gpu_workload":                      {{"2026-03-01T14:00:00.000Z"}},
		"select end_at from pod_resource":                      {{"2026-03-01T13:59:00.000Z"}},
	} {
		if diff := cmp.Diff(want, lines(t, path, query)); diff != "" {
			t.Errorf("%s after a silent hour (-want +got):\n%s", query, diff)
		}
	}
}

func TestSQLiteErrors(t *testing.T) {
	d, path := fresh(t)
	if _, err := database.SQLite.OpenReader(t.Context(), path+"x", ""); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("error for a missing file is %v", err)
	}
	r, err := database.SQLite.OpenReader(t.Context(), path, "")
	check(t, err)
	defer r.Close()
	write := database.SQL("delete from {hours} returning cluster")
	if err := r.Rows(t.Context(), write, []table.Type{table.Text}, func([]table.Cell) bool { return true }); err == nil || !strings.Contains(err.Error(), "readonly") {
		t.Errorf("error for a write is %v", err)
	}
	twice := sinktest.Hour(sinktest.Noon, 7)
	twice.Charges = append(twice.Charges, twice.Charges[0])
	if err := d.Replace(t.Context(), twice); !errors.Is(err, permanent.Err) {
		t.Errorf("error for a repeated key is %v, want a permanent error", err)
	}
	if got := lines(t, path, "select count(*) from hours"); got[0][0] != "0" {
		t.Errorf("%s hours are filed after an error", got[0][0])
	}
}
