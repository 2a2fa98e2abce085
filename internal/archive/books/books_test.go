package books_test

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/fatal"
)

var check = fatal.If

var begin = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)

func hour(cluster string, n int) *table.Hour {
	h := &table.Hour{Cluster: cluster, Start: begin.Add(time.Duration(n) * time.Hour), UnknownPods: []table.PodID{{Namespace: "a", Pod: "p", UID: "u"}}}
	for i := range 2 {
		uuid := fmt.Sprintf("GPU-%d", i)
		h.GPUs = append(h.GPUs, table.GPU{Node: "n", UUID: uuid, Serial: "S" + uuid, Model: "H100", Scrapes: 60, Energy: 100, Uncounted: int64(i) * 9, First: h.Start, Last: h.Start, XIDs: map[string]int64{"79": 2}})
		h.Charges = append(h.Charges,
			table.Charge{Node: "n", UUID: uuid, Namespace: "a", Pod: "p", PodUID: "u", Team: "red", Energy: 60, Exclusive: 10, Idle: 5, Held: 4, GPUTime: 3, Active: 2, Estimated: 7, Busy: 1},
			table.Charge{Node: "n", UUID: uuid, Reason: "idle", Energy: 40})
	}
	g := &h.GPUs[0] // the other GPU has no error counts
	g.DRAMUncorrectable, g.LifetimeUncorrectable, g.Thermal, g.RecoveryAction = new(int64(5)), new(int64(0)), new(int64(1500)), "reboot"
	return sinktest.Complete(h)
}

func rowsOf(cluster string, n int) []table.GPU {
	h := hour(cluster, n)
	for i := range h.GPUs {
		h.GPUs[i].Cluster, h.GPUs[i].Hour = cluster, h.Start
	}
	return h.GPUs
}

func hoursOf(n int) (all []*table.Hour) {
	for i := range n {
		all = append(all, hour("east", i))
	}
	return all
}

// archived returns 50 hours of each cluster, east and west. One hour of east has a correction.
func archived() (all []*table.Hour) {
	for n := range 50 {
		all = append(all, hour("east", n), hour("west", n))
	}
	corrected := hour("east", 7)
	corrected.Revision, corrected.State = 2, table.Corrected
	corrected.Corrections = []table.Charge{
		{Node: "n", UUID: "GPU-0", Namespace: "a", Pod: "p", PodUID: "u", Team: "red", Energy: -7}, {Node: "n", UUID: "GPU-0", Reason: "idle", Energy: 7},
	}
	return append(all, corrected)
}

// TestStatement compares all kinds of archives with each other, and with sums that were calculated by hand.
func TestStatement(t *testing.T) {
	first := make(map[int]*books.Statement) // statements of the first kind of archive, by number of selected GPUs
	for _, kind := range bookstest.Kinds {
		source := bookstest.Open(t, bookstest.File(t, kind, archived()...))
		for gpus, uuids := range map[int][]string{1: {"GPU-1"}, 2: {"GPU-0", "GPU-1"}} { // the tables of hours and unknown pods have no column uuid
			of := books.Query{From: begin.Add(time.Hour), Until: begin.Add(26 * time.Hour), Where: map[string][]string{"cluster": {"east"}, "uuid": uuids}, Checks: true, Rows: true}
			of.By = []string{"hour", "team", "model", "reason"}
			st, err := source.Statement(t.Context(), of)
			check(t, err)
			if first[gpus] == nil {
				first[gpus] = st
			}
			if diff := cmp.Diff(first[gpus], st); diff != "" {
				t.Errorf("%s differs from %s (-want +got):\n%s", kind, bookstest.Kinds[0], diff)
			}
			if len(st.Hours) != 25 || len(st.Rows) != 25*gpus || len(st.Charges) != 50 {
				t.Fatalf("%s, %d GPUs: %d hours, %d rows, %d charges", kind, gpus, len(st.Hours), len(st.Rows), len(st.Charges))
			}
			for i, want := range rowsOf("east", 1)[2-gpus:] {
				if diff := cmp.Diff(want, st.Rows[i].GPU); diff != "" {
					t.Errorf("%s, %d GPUs: row %d (-want +got):\n%s", kind, gpus, i, diff)
				}
			}
			checked(t, kind, st, 25, 25)
			of.By = of.By[1:]
			st, err = source.Statement(t.Context(), of)
			check(t, err)
			n, corrected := int64(25*gpus), int64(7*(gpus-1))
			want := []table.Charge{
				{Model: "H100", Reason: "idle", Energy: 40*n + corrected},
				{Model: "H100", Team: "red", Energy: 60*n - corrected, Exclusive: 10 * n, Idle: 5 * n, Held: 4 * n, GPUTime: 3 * n, Active: 2 * n, Estimated: 7 * n, Busy: n},
			}
			if diff := cmp.Diff(want, st.Charges); diff != "" {
				t.Errorf("%s, %d GPUs: charges (-want +got):\n%s", kind, gpus, diff)
			}
		}
		boards, err := source.Boards(t.Context(), books.Query{From: begin, Until: begin.Add(time.Hour), Named: "SGPU-0"})
		check(t, err)
		if len(boards) != 2 || boards[0].UUID != "GPU-0" || boards[1].UUID != "GPU-0" {
			t.Errorf("%s: boards %v, want GPU-0 in both clusters", kind, boards)
		}
		check(t, source.Close())
	}
}

// TestUnprofiled corrects an hour so that its profiled time is unknown. In the sum of the hour, and in the sum of its
// day, the profiled time must then be unknown too. It must not be 0, which would mean that no tensor core worked.
func TestUnprofiled(t *testing.T) {
	profiled, corrected := hour("east", 7), hour("east", 7)
	profiled.Charges[0].Profiled, profiled.Charges[0].TensorActive, profiled.Charges[0].DRAMActive = new(int64(1000)), new(int64(300)), new(int64(0))
	corrected.Revision, corrected.State = 2, table.Corrected
	corrected.Corrections = table.Difference(profiled.Charges, corrected.Charges)
	for _, kind := range bookstest.Kinds {
		for _, hours := range [][]*table.Hour{{profiled}, {profiled, corrected}} {
			source := bookstest.Open(t, bookstest.File(t, kind, hours...))
			for _, of := range []books.Query{{From: profiled.Start, Until: profiled.Start.Add(time.Hour)}, {From: begin, Until: begin.AddDate(0, 0, 1)}} {
				st, err := source.Statement(t.Context(), of)
				check(t, err)
				want := table.Charge{Energy: 200, Exclusive: 20, Idle: 10, Held: 8, GPUTime: 6, Active: 4, Estimated: 14, Busy: 2}
				if len(hours) == 1 {
					want.Profiled, want.TensorActive, want.DRAMActive = new(int64(1000)), new(int64(300)), new(int64(0))
				}
				if diff := cmp.Diff([]table.Charge{want}, st.Charges); diff != "" {
					t.Errorf("%s, %d revisions, %v (-want +got):\n%s", kind, len(hours), of.Until.Sub(of.From), diff)
				}
			}
			check(t, source.Close())
		}
	}
}

// rows is the number of rows of GPU-1 in the selected hours.
func checked(t *testing.T, kind string, st *books.Statement, hours, rows int64) {
	t.Helper()
	pods := []books.UnknownPod{{Cluster: "east", PodID: table.PodID{Namespace: "a", Pod: "p", UID: "u"}, Hours: hours, Energy: hours * 2 * 60}}
	if diff := cmp.Diff(pods, st.UnknownPods); diff != "" {
		t.Errorf("%s: unknown pods (-want +got):\n%s", kind, diff)
	}
	if diff := cmp.Diff([]books.Uncounted{{Cluster: "east", Node: "n", UUID: "GPU-1", Serial: "SGPU-1", Energy: rows * 9}}, st.Uncounted); diff != "" || !st.Bounded {
		t.Errorf("%s: uncounted energy (-want +got):\n%s", kind, diff)
	}
}

// TestAudit removes the rows of GPUs for one hour from the database. Found must not contain this hour. The other
// results must still include all hours of one cluster.
func TestAudit(t *testing.T) {
	type owned struct {
		hour  time.Time
		owner bool
	}
	const hours, removed = 50, 30
	for _, kind := range bookstest.Kinds {
		path := bookstest.File(t, kind, archived()...)
		charges, found, rows := make(map[owned]int64), make(map[time.Time]bool), hours
		for n := range hours {
			at := begin.Add(time.Duration(n) * time.Hour)
			charges[owned{at, true}], charges[owned{at, false}], found[at] = 2*60, 2*40, true
		}
		charges[owned{begin.Add(7 * time.Hour), true}] -= 7
		charges[owned{begin.Add(7 * time.Hour), false}] += 7
		if kind == "sqlite" {
			at := begin.Add(removed * time.Hour)
			execute(t, path, "delete from gpu_hours where cluster = 'east' and hour = '"+table.Format(at)+"'")
			delete(found, at)
			rows--
		}
		source := bookstest.Open(t, path)
		got, err := source.(books.Auditing).Audit(t.Context(), books.Query{From: begin, Until: begin.Add(hours * time.Hour), Where: map[string][]string{"cluster": {"east"}}})
		check(t, err)
		check(t, source.Close())
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
		if diff := cmp.Diff(map[string]map[time.Time]bool{"east": found}, got.Found); diff != "" {
			t.Errorf("%s: hours with rows (-want +got):\n%s", kind, diff)
		}
		checked(t, kind, got.Statement, hours, int64(rows))
		if wrong := len(got.WrongDays); len(got.Hours) != hours || wrong != hours-rows {
			t.Errorf("%s: %d hours, wrong days %v", kind, len(got.Hours), got.WrongDays)
		}
	}
}

func TestStoreErrors(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	if _, err := books.OpenFolder(t.Context(), t.TempDir()); err == nil {
		t.Error("an empty folder is read as an archive")
	}
	if _, err := books.OpenDatabase(t.Context(), "mysql://127.0.0.1:1/x", ""); err == nil {
		t.Error("a database that is down can be read")
	}
}
