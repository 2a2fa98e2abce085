package books_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/store"
)

// fleetHours is the number of simulated hours. fleetNodes is the number of nodes with one board each.
const fleetHours, fleetNodes = 2, 3

// fleet returns a fleet, and the address of a store with its samples and with the results of rules for its true energy.
func fleet(t *testing.T, change func(*foldtest.Store)) (url string, f *foldtest.Fleet) {
	t.Helper()
	samples := foldtest.NewStore()
	f = foldtest.NewFleet(samples, begin, 3, fleetNodes, "cluster", "east")
	f.RunRuled(fleetHours)
	if change != nil {
		change(samples)
	}
	server := httptest.NewServer(foldtest.API{Store: samples})
	t.Cleanup(server.Close)
	return server.URL, f
}

func openStore(t *testing.T, url, read string) books.Source {
	t.Helper()
	source, err := books.OpenStore(store.Config{URL: url, Type: "prometheus", Timeout: time.Minute}, books.Reading{Read: read, Team: "team"})
	check(t, err)
	return source
}

// TestOrder checks, for each kind of source, that answers do not depend on earlier calls.
func TestOrder(t *testing.T) {
	url, f := fleet(t, nil)
	var energy int64
	for _, n := range f.Nodes {
		energy += n.Board.Energy
	}
	open := make(map[string]func() books.Source)
	for _, read := range []string{"samples", "rules", "auto"} {
		open[read] = func() books.Source { return openStore(t, url, read) }
	}
	for _, kind := range bookstest.Kinds {
		path := bookstest.File(t, kind, hoursOf(fleetHours)...)
		open[kind] = func() books.Source { return bookstest.Open(t, path) }
	}
	for name, open := range open {
		t.Run(name, func(t *testing.T) {
			of := books.Query{From: begin, Until: begin.Add(fleetHours * time.Hour)}
			n := bookstest.All
			if name == "auto" { // a small fleet has enough GPU hours for rules only in a long period
				of.Until = begin.Add(4000 * time.Hour)
				n = 3
			}
			bookstest.TestOrder(t, open, of, n, fleetHours)
		})
	}
	var sum int64
	of := books.Query{From: begin, Until: begin.Add(fleetHours * time.Hour), By: []string{"namespace"}}
	for _, read := range []string{"samples", "rules"} {
		sum = 0
		source := openStore(t, url, read)
		st, err := source.Statement(t.Context(), of)
		check(t, err)
		for _, h := range st.Hours {
			sum += h.Energy
		}
		check(t, source.Close())
		if sum != energy {
			t.Errorf("%s: the hours contain %d mJ, the boards used %d", read, sum, energy)
		}
	}
}
