package books_test

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/fatal"
)

var check = fatal.If

var begin = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)

// hour returns an hour with two GPUs, a pod and idle energy.
func hour(cluster string, n int) *table.Hour {
	h := &table.Hour{Cluster: cluster, Start: begin.Add(time.Duration(n) * time.Hour)}
	for i := range 2 {
		uuid := fmt.Sprintf("GPU-%d", i)
		h.GPUs = append(h.GPUs, table.GPU{Node: "n", UUID: uuid, Serial: "S" + uuid, Model: "H100", Scrapes: 60, Energy: 100, Uncounted: int64(i) * 9, First: h.Start, Last: h.Start, XIDs: map[string]int64{"79": 2}})
		h.Charges = append(h.Charges,
			table.Charge{Node: "n", UUID: uuid, Namespace: "a", Pod: "p", PodUID: "u", Team: "red", Energy: 60, Exclusive: 10, Idle: 5, Held: 4, GPUTime: 3, Active: 2, Estimated: 7, Busy: 1},
			table.Charge{Node: "n", UUID: uuid, Reason: "idle", Energy: 40})
	}
	return sinktest.Complete(h)
}

// hoursOf returns the first n hours of the cluster east.
func hoursOf(n int) (all []*table.Hour) {
	for i := range n {
		all = append(all, hour("east", i))
	}
	return all
}

// TestSQLite checks that an SQLite file returns the same rows as a folder, in the same order.
func TestSQLite(t *testing.T) {
	var hours []*table.Hour
	for n := range 30 {
		for _, cluster := range []string{"east", "west"} {
			h := hour(cluster, n)
			h.UnknownPods = []table.PodID{{Namespace: "a", Pod: "p", UID: "u"}}
			hours = append(hours, h)
		}
	}
	folder, file := bookstest.File(t, "csv", hours...), bookstest.File(t, "sqlite", hours...)
	of := books.Query{
		From: begin.Add(time.Hour), Until: begin.Add(26 * time.Hour), Where: map[string][]string{"cluster": {"east"}},
		By: []string{"hour", "team", "model", "reason"}, Checks: true, Rows: true,
	}
	read := func(path string) *books.Statement {
		s := bookstest.Open(t, path)
		defer s.Close()
		st, err := s.Statement(t.Context(), of)
		check(t, err)
		return st
	}
	for _, uuids := range [][]string{nil, {"GPU-1"}} { // a query by UUID must also work for tables without the column uuid: hours and unknown pods
		rows := 50
		if uuids != nil {
			of.Where["uuid"], rows = uuids, 25
		}
		want, got := read(folder), read(file)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("statement of %s (-folder +file):\n%s", uuids, diff)
		}
		if len(got.Hours) != 25 || len(got.Rows) != rows || len(got.Charges) != 50 || len(got.Uncounted) != 1 {
			t.Errorf("%s: %d hours, %d rows, %d charges, %d boards", uuids, len(got.Hours), len(got.Rows), len(got.Charges), len(got.Uncounted))
		}
		pods := []books.UnknownPod{{Cluster: "east", PodID: table.PodID{Namespace: "a", Pod: "p", UID: "u"}, Hours: 25, Energy: 25 * 2 * 60}}
		if diff := cmp.Diff(pods, got.UnknownPods); diff != "" {
			t.Errorf("unknown pods (-want +got):\n%s", diff)
		}
	}
}

// TestFolder checks sums, filters and corrections in both formats. Hours without a row in the manifest must not be
// read.
func TestFolder(t *testing.T) {
	for _, format := range files.Formats() {
		t.Run(format, func(t *testing.T) {
			folder := t.TempDir()
			sink, err := files.Open(folder, []string{format})
			check(t, err)
			for _, h := range hoursOf(30) {
				check(t, sink.Replace(t.Context(), h))
			}
			check(t, sink.Replace(t.Context(), hour("west", 0)))
			corrected := hour("east", 3)
			corrected.Revision, corrected.State, corrected.Corrections = 2, table.Corrected, []table.Charge{{Node: "n", UUID: "GPU-0", Namespace: "a", Pod: "p", PodUID: "u", Team: "red", Energy: -7}}
			check(t, sink.Correct(t.Context(), corrected))
			check(t, sink.Close())

			source, err := books.OpenFolder(t.Context(), folder)
			check(t, err)
			of := books.Query{From: begin.Add(time.Hour), Until: begin.Add(26 * time.Hour), Where: map[string][]string{"cluster": {"east"}}}
			of.By, of.Checks = []string{"team", "model", "reason"}, true
			st, err := source.Statement(t.Context(), of)
			check(t, err)
			want := []table.Charge{
				{Model: "H100", Reason: "idle", Energy: 2 * 25 * 40},
				{Model: "H100", Team: "red", Energy: 2*25*60 - 7, Exclusive: 500, Idle: 250, Held: 200, GPUTime: 150, Active: 100, Estimated: 350, Busy: 50},
			}
			if diff := cmp.Diff(want, st.Charges); diff != "" {
				t.Errorf("charges (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]books.Uncounted{{"east", "n", "GPU-1", "SGPU-1", 25 * 9}}, st.Uncounted); diff != "" || !st.Bounded {
				t.Errorf("uncounted energy (-want +got):\n%s", diff)
			}
			of.Where["uuid"] = []string{"GPU-1"}
			rows, errors := 0, int64(0)
			for g, err := range source.Rows(t.Context(), of) {
				check(t, err)
				rows++
				errors += g.XIDs["79"]
				if g.UUID != "GPU-1" || g.Cluster != "east" {
					t.Errorf("GPU %s of %s", g.UUID, g.Cluster)
				}
			}
			if rows != 25 || errors != 50 {
				t.Errorf("%d GPUs with %d errors, want 25 with 50", rows, errors)
			}
			of.Where = nil
			of.Named = "SGPU-0"
			boards, err := source.Boards(t.Context(), of)
			check(t, err)
			if len(boards) != 1 || boards[0].UUID != "GPU-0" {
				t.Errorf("boards %v", boards)
			}
		})
	}
}

// TestStoreErrors checks the errors about an empty folder and about a database that is down.
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
