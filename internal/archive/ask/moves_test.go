package ask_test

import (
	"encoding/csv"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/draws"
)

// write writes the hours of a drawn history as files of an archive.
func write(t *testing.T, p *foldtest.Places) string {
	t.Helper()
	folder := t.TempDir()
	files := make(map[string][][]string)
	for _, h := range p.Hours {
		h.State = table.Complete
		for _, of := range []table.Table{table.GPUHours, table.Hours} {
			name := filepath.Join(folder, of.Name, "cluster="+h.Cluster, "date="+h.Start.Format(time.DateOnly), of.Name+".csv")
			if files[name] == nil {
				files[name] = [][]string{of.Names()}
			}
			for _, row := range of.Rows(h) {
				var line []string
				for _, value := range row {
					line = append(line, table.Format(value))
				}
				files[name] = append(files[name], line)
			}
		}
	}
	for name, lines := range files {
		check(t, os.MkdirAll(filepath.Dir(name), 0o750))
		out, err := os.Create(name)
		check(t, err)
		check(t, csv.NewWriter(out).WriteAll(lines))
		check(t, out.Close())
	}
	return folder
}

// answer asks about boards in a random history, and returns the given columns.
func answer(t *testing.T, source string, from int, columns []string, question ...string) (rows []string) {
	t.Helper()
	at := func(hour int) string { return october.Add(time.Duration(hour) * time.Hour).Format(time.RFC3339) }
	r := run(t, append(question, source, "--from="+at(from), "--to="+at(foldtest.PlacesHours), "-o", "json")...)
	for _, row := range r.rows(t) {
		var values []string
		for _, column := range columns {
			text := fmt.Sprint(row[column])
			if at, err := time.Parse(time.RFC3339, text); err == nil {
				text = at.UTC().Format("02 15:04")
			}
			values = append(values, text)
		}
		rows = append(rows, strings.Join(values, " | "))
	}
	slices.Sort(rows)
	return rows
}

const day = 24

// moves returns the events that were drawn for the second day and later.
func moves(p *foldtest.Places) (rows []string) {
	for _, e := range p.Events {
		if !e.At.Before(p.Start.Add(day * time.Hour)) {
			rows = append(rows, strings.Join([]string{e.At.Format("02 15:04"), e.Event, e.Serial, fmt.Sprint(e.GPUs), e.Cluster, e.Node, e.FromCluster, e.FromNode, e.Took}, " | "))
		}
	}
	slices.Sort(rows)
	return rows
}

var moveColumns = []string{"time", "event", "serial", "gpus", "cluster", "node", "previous_cluster", "previous_node", "previous_serial"}

// TestMoves compares the answers to moves and history with drawn histories, in which boards are removed, return, or are
// swapped, replaced or moved, nodes are silent or reboot, a cluster is installed late, and some hours are not filed.
func TestMoves(t *testing.T) {
	kinds, seeds := make(map[string]int), draws.Of(30, 80)
	for seed := range uint64(seeds) {
		p := foldtest.DrawPlaces(seed, october, true)
		source := "--books=" + write(t, p)
		if diff := cmp.Diff(moves(p), answer(t, source, day, moveColumns, "moves")); diff != "" {
			t.Fatalf("seed %d: moves (-drawn +answered):\n%s", seed, diff)
		}
		for _, e := range p.Events {
			kinds[e.Event]++
		}
		if seed%5 > 0 {
			continue
		}
		stays := make(map[string][]string)
		for _, s := range p.Stays {
			stays[s.Serial] = append(stays[s.Serial], strings.Join([]string{s.Cluster, s.Node, s.Start, s.First.Format("02 15:04"), s.Last.Format("02 15:04"), s.End}, " | "))
		}
		for serial, want := range stays {
			slices.Sort(want)
			if diff := cmp.Diff(want, answer(t, source, 0, []string{"cluster", "node", "start_event", "first_seen", "last_seen", "end_event"}, "history", serial)); diff != "" {
				t.Fatalf("seed %d: history %s (-drawn +answered):\n%s", seed, serial, diff)
			}
		}
	}
	for _, kind := range []string{"arrived", "moved", "returned", "lost", "silent", "replaced"} {
		if kinds[kind] < seeds/2 {
			t.Errorf("only %d boards %s", kinds[kind], kind)
		}
	}
}

// TestMovesInStore compares answers from a store with drawn histories.
func TestMovesInStore(t *testing.T) {
	for seed := range uint64(draws.Of(3, 10)) {
		p := foldtest.DrawPlaces(seed, october, false)
		server := httptest.NewServer(foldtest.API{Store: p.Record()})
		defer server.Close()
		if diff := cmp.Diff(moves(p), answer(t, "--store.url="+server.URL, day, moveColumns, "moves")); diff != "" {
			t.Errorf("seed %d: moves (-drawn +answered):\n%s", seed, diff)
		}
	}
}
