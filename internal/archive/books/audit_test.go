package books_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// owned selects the charges in an hour of the cluster east, either those with an owner or those without one.
type owned struct {
	hour  time.Time
	owner bool
}

// TestAudit checks that audits of files and of a database contain the sums of the filed hours. The expected sums were
// counted by hand. One hour has a correction, and all hours have unknown pods and uncounted energy. The audit covers
// one of two clusters. In the database, the GPUs of one hour are missing.
func TestAudit(t *testing.T) {
	folder, file := t.TempDir(), filepath.Join(t.TempDir(), "archive.db")
	csv, err := files.Open(folder, []string{"csv"})
	check(t, err)
	sqlite, err := database.SQLite.Open(t.Context(), file, "")
	check(t, err)
	const hours, removed = 50, 30
	charges, found := make(map[owned]int64), make(map[time.Time]bool)
	for n := range hours {
		for _, cluster := range []string{"east", "west"} {
			h := hour(cluster, n)
			h.UnknownPods = []table.PodID{{Namespace: "a", Pod: "p", UID: "u"}}
			check(t, csv.Replace(t.Context(), h))
			check(t, sqlite.Replace(t.Context(), h))
		}
		at := begin.Add(time.Duration(n) * time.Hour)
		charges[owned{at, true}], charges[owned{at, false}] = 2*60, 2*40
		if n != removed {
			found[at] = true
		}
	}
	corrected := hour("east", 7)
	corrected.Revision, corrected.State, corrected.UnknownPods = 2, table.Corrected, []table.PodID{{Namespace: "a", Pod: "p", UID: "u"}}
	corrected.Corrections = []table.Charge{
		{Node: "n", UUID: "GPU-0", Namespace: "a", Pod: "p", PodUID: "u", Team: "red", Energy: -7}, {Node: "n", UUID: "GPU-0", Reason: "idle", Energy: 7},
	}
	charges[owned{corrected.Start, true}] -= 7
	charges[owned{corrected.Start, false}] += 7
	check(t, csv.Correct(t.Context(), corrected))
	check(t, sqlite.Correct(t.Context(), corrected))
	check(t, csv.Close())
	check(t, sqlite.Close())
	execute(t, file, "delete from gpu_hours where cluster = 'east' and hour = '"+table.Format(begin.Add(removed*time.Hour))+"'")
	of := books.Query{From: begin, Until: begin.Add(hours * time.Hour), Where: map[string][]string{"cluster": {"east"}}}
	for kind, open := range map[string]func() (books.Source, error){
		"csv": func() (books.Source, error) { return books.OpenFolder(t.Context(), folder) }, "sqlite": func() (books.Source, error) { return books.OpenSQLite(t.Context(), file) },
	} {
		source, err := open()
		check(t, err)
		got, err := source.(books.Auditing).Audit(t.Context(), of)
		check(t, err)
		check(t, source.Close())
		rows := hours - 1
		want := map[string]map[time.Time]bool{"east": found}
		if kind == "csv" {
			rows, want = hours, map[string]map[time.Time]bool{"east": {begin.Add(removed * time.Hour): true}}
			for hour := range found {
				want["east"][hour] = true
			}
		}
		sums := make(map[owned]int64)
		for _, c := range got.Charges {
			if c.Cluster != "east" {
				t.Errorf("%s: a charge of %q", kind, c.Cluster)
			}
			sums[owned{c.Hour, c.Reason == ""}] += c.Energy
		}
		if diff := cmp.Diff(charges, sums); diff != "" {
			t.Errorf("%s: charges (-want +got):\n%s", kind, diff)
		}
		if diff := cmp.Diff(want, got.Found); diff != "" {
			t.Errorf("%s: hours with rows (-want +got):\n%s", kind, diff)
		}
		pods := []books.UnknownPod{{Cluster: "east", PodID: table.PodID{Namespace: "a", Pod: "p", UID: "u"}, Hours: hours, Energy: hours * 2 * 60}}
		if diff := cmp.Diff(pods, got.UnknownPods); diff != "" {
			t.Errorf("%s: unknown pods (-want +got):\n%s", kind, diff)
		}
		if diff := cmp.Diff([]books.Uncounted{{Cluster: "east", Node: "n", UUID: "GPU-1", Serial: "SGPU-1", Energy: int64(rows) * 9}}, got.Uncounted); diff != "" || !got.Bounded {
			t.Errorf("%s: uncounted energy (-want +got):\n%s", kind, diff)
		}
		if len(got.Hours) != hours {
			t.Errorf("%s: %d hours, want %d", kind, len(got.Hours), hours)
		}
		if wrong := len(got.WrongDays); (kind == "sqlite") != (wrong == 1) {
			t.Errorf("%s: wrong days %v", kind, got.WrongDays)
		}
	}
}
