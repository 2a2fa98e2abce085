//go:build e2e

package archive_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/program"
)

// TestMoves compares the command moves and the view board_events with random histories, in databases and in a
// Prometheus.
func TestMoves(t *testing.T) {
	t.Parallel()
	const seeds = 4
	group := program.OpenFor(t)
	for _, kind := range kinds {
		server := kind.start(t)
		for seed := range uint64(seeds) {
			p := foldtest.DrawPlaces(seed, began, true)
			url, db := server.create(t, fmt.Sprint("moves", seed))
			sink, err := kind.sink(t.Context(), url)
			check(t, err)
			for _, h := range p.Hours {
				check(t, sink.Replace(t.Context(), sinktest.Complete(h)))
			}
			check(t, sink.Close())
			checkMoves(t, fmt.Sprintf("%s, seed %d", kind.name, seed), p, "--books="+url)
			checkEvents(t, fmt.Sprintf("%s, seed %d", kind.name, seed), p, db)
		}
	}
	p := foldtest.DrawPlaces(seeds, began, false)
	checkMoves(t, "Prometheus", p, "--store.url="+serve(t, group, "moves", p.Record(), "").URL())
}

func checkMoves(t *testing.T, name string, p *foldtest.Places, source string) {
	t.Helper()
	begin := p.Start.Add(24 * time.Hour)
	var want, got []string
	for _, e := range p.Events {
		if !e.At.Before(begin) {
			want = append(want, fmt.Sprint(table.Format(e.At), " ", e.Event, " ", e.Serial, " ", e.GPUs, " ", e.Cluster, " ", e.Node, " ", e.FromNode, " ", e.Took))
		}
	}
	a := ask(t, "moves", source, "--from="+begin.Format(time.RFC3339), "--to="+p.Start.Add(foldtest.PlacesHours*time.Hour).Format(time.RFC3339), "-o", "json")
	if a.status != 0 {
		t.Fatalf("%s: %s", name, a.errors)
	}
	for _, row := range a.Rows {
		got = append(got, fmt.Sprint(row["time"], " ", row["event"], " ", row["serial"], " ", row["gpus"], " ", row["cluster"], " ", row["node"], " ", row["previous_node"], " ", row["previous_serial"]))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: moves (-drawn +answered):\n%s", name, diff)
	}
}

// checkEvents compares the events of the view with the expected events. For a node without samples, the view contains a
// row for each of its boards instead of one row. For a replaced board, the view also contains an event "replaced" at
// the next board.
func checkEvents(t *testing.T, name string, p *foldtest.Places, db query) {
	t.Helper()
	var want []string
	for _, s := range p.Stays {
		if s.Start != "seen" {
			want = append(want, strings.Join([]string{s.First.Format("2006-01-02 15:04"), s.Start, s.Serial, s.Node}, " | "))
		}
		if s.End == "silent" || s.End == "lost" {
			want = append(want, strings.Join([]string{s.Last.Format("2006-01-02 15:04"), s.End, s.Serial, s.Node}, " | "))
		}
	}
	got := db.rows(t, "select event_time, event, serial, node from board_events where event in ('moved', 'returned', 'silent', 'lost')")
	replaced := make(map[string]bool) // boards that were replaced immediately; their last event in the view is lost or silent
	for _, s := range p.Stays {
		if s.End == "replaced" {
			for _, event := range []string{"lost", "silent"} {
				replaced[strings.Join([]string{s.Last.Format("2006-01-02 15:04"), event, s.Serial, s.Node}, " | ")] = true
			}
		}
	}
	got = slices.DeleteFunc(got, func(row string) bool { return replaced[row] })
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: board_events (-drawn +view):\n%s", name, diff)
	}
}
