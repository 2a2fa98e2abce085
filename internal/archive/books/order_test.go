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

const fleetHours = 2

// fleet returns the URL of a store with the samples of a simulated fleet and with the results of recording rules.
func fleet(t *testing.T, change func(*foldtest.Store)) (url string) {
	t.Helper()
	samples := foldtest.NewStore()
	foldtest.NewFleet(samples, begin, 3, 3, "cluster", "east").RunRuled(fleetHours)
	if change != nil {
		change(samples)
	}
	server := httptest.NewServer(foldtest.API{Store: samples})
	t.Cleanup(server.Close)
	return server.URL
}

func openStore(t *testing.T, url, read string) books.Source {
	t.Helper()
	source, err := books.OpenStore(store.Config{URL: url, Type: "prometheus", Timeout: time.Minute}, books.Reading{Read: read, Team: "team"})
	check(t, err)
	return source
}

func TestOrder(t *testing.T) {
	url := fleet(t, nil)
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
			if name == "auto" { // a small fleet needs a long period to have enough GPU hours for rules
				of.Until = begin.Add(4000 * time.Hour)
				n = 3
			}
			bookstest.TestOrder(t, open, of, n, fleetHours)
		})
	}
}
