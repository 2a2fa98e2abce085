package ask_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/test/draws"
)

func answer(t *testing.T, source string, from int, columns []string, question ...string) (rows []string) {
	t.Helper()
	at := func(hour int) string { return october.Add(time.Duration(hour) * time.Hour).Format(time.RFC3339) }
	r := run(t, append(question, source, "--from="+at(from), "--to="+at(foldtest.PlacesHours), "-o", "json")...)
	for _, row := range r.rows() {
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

// moves returns the expected events after the first day.
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

// TestMoves compares answers of "moves" and "history" with random histories. Boards are removed and return. Boards are
// also swapped, replaced and moved. Nodes reboot or are not scraped. A cluster is installed late, and the archive lacks
// some hours.
func TestMoves(t *testing.T) {
	kinds, seeds := make(map[string]int), draws.Of(20, 80)
	for seed := range uint64(seeds) {
		p := foldtest.DrawPlaces(seed, october, true)
		source := "--books=" + bookstest.File(t, "csv", p.Hours...)
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

// TestPlacesOfDays compares the answers from a database with the answers from files. The database also reads daily
// sums, and files have only hours. In some hours, a GPU is in two clusters.
func TestPlacesOfDays(t *testing.T) {
	for seed := range uint64(draws.Of(2, 3)) {
		p := foldtest.DrawPlaces(seed, october, true)
		for n, h := range p.Hours {
			if n == 0 || seed%2 == 0 || p.IntN(8) > 0 {
				continue
			}
			if before := p.Hours[n-1]; before.Start.Equal(h.Start) && len(before.GPUs) > 0 {
				h.GPUs = append(h.GPUs, before.GPUs[0])
			}
		}
		folder, file := "--books="+bookstest.File(t, "csv", p.Hours...), bookstest.File(t, "sqlite", p.Hours...)
		for range 4 {
			from := october.Add(time.Duration(p.IntN(30)) * time.Hour)
			until := from.Add(time.Duration(20+p.IntN(30)) * time.Hour)
			for _, question := range []string{"moves", "missing", "capacity", "capacity --age", "capacity --failures"} {
				args := append(strings.Fields(question), "--from="+from.Format(time.RFC3339), "--to="+until.Format(time.RFC3339), "-o", "json")
				hours, days := run(t, append(args, folder)...), run(t, append(args, "--books="+file)...)
				if hours.status != 0 || hours.out != days.out || hours.err != days.err {
					t.Fatalf("seed %d: %v: exit status %d (-hours +days):\n%s%s", seed, args, hours.status, cmp.Diff(hours.out, days.out), days.err)
				}
			}
		}
	}
}
