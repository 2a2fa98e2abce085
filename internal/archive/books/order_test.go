package books_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/store"
)

// fleetHours is the number of hours of the fleet, and fleetNodes the number of its boards.
const fleetHours, fleetNodes = 2, 3

// fleet returns the address of a store with the samples of a fleet and the rules of its truth, and the fleet.
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

// methods are the methods of a source, with their answers as text.
var methods = []struct {
	name string
	call func(t *testing.T, s books.Source, of books.Selection) string
}{
	{"Hours", func(t *testing.T, s books.Source, of books.Selection) (text string) {
		of.By = []string{"namespace"}
		check(t, s.Hours(t.Context(), of, func(h books.Hour) bool { text += h.Hour.Format("15h "); return true }))
		return text
	}},
	{"Hours with energy", func(t *testing.T, s books.Source, of books.Selection) (text string) {
		of.By, of.Energy = []string{"namespace"}, true
		check(t, s.Hours(t.Context(), of, func(h books.Hour) bool { text += fmt.Sprintf("%s %d ", h.Hour.Format("15h"), h.Energy); return true }))
		return text
	}},
	{"Charges", func(t *testing.T, s books.Source, of books.Selection) string {
		found, err := s.Charges(t.Context(), of, "namespace")
		check(t, err)
		return fmt.Sprint(found)
	}},
	{"UnknownPods", func(t *testing.T, s books.Source, of books.Selection) string {
		of.By = []string{"namespace"}
		found, err := s.UnknownPods(t.Context(), of)
		check(t, err)
		return fmt.Sprint(found)
	}},
	{"GPUs", func(t *testing.T, s books.Source, of books.Selection) string {
		var all []string
		check(t, s.GPUs(t.Context(), of, func(g books.GPU) { all = append(all, fmt.Sprint(g.Hour, g.UUID, g.Energy)) }))
		return fmt.Sprint(all)
	}},
	{"Boards", func(t *testing.T, s books.Source, of books.Selection) string {
		found, err := s.Boards(t.Context(), of)
		check(t, err)
		all := []string{}
		for _, b := range found {
			all = append(all, b.UUID+" "+b.Serial)
		}
		slices.Sort(all)
		return fmt.Sprint(all)
	}},
}

// orders calls each with every order of n numbers.
func orders(n int, each func([]int)) {
	var add func(order []int)
	add = func(order []int) {
		if len(order) == n {
			each(order)
			return
		}
		for i := range n {
			if !slices.Contains(order, i) {
				add(append(slices.Clip(order), i))
			}
		}
	}
	add(nil)
}

// TestOrder checks that the answers of all sources do not depend on the calls before.
func TestOrder(t *testing.T) {
	url, f := fleet(t, nil)
	var energy int64
	for _, n := range f.Nodes {
		energy += n.Board
	}
	open := make(map[string]func() books.Source)
	for _, read := range []string{"samples", "rules", "auto"} {
		open[read] = func() books.Source { return openStore(t, url, read) }
	}
	for _, format := range files.Formats() {
		folder := t.TempDir()
		sink, err := files.Open(folder, []string{format})
		check(t, err)
		for n := range fleetHours {
			check(t, sink.Replace(t.Context(), hour("east", n)))
		}
		check(t, sink.Close())
		open[format] = func() books.Source {
			source, err := books.OpenFolder(t.Context(), folder)
			check(t, err)
			return source
		}
	}
	for name, open := range open {
		t.Run(name, func(t *testing.T) {
			of := books.Selection{From: begin, Until: begin.Add(fleetHours * time.Hour)}
			n := len(methods)
			switch name {
			case "samples", "rules":
				n = 5 // Boards reads the index only
				if testing.Short() {
					n = 3
				}
			case "auto": // the fleet is so small that only a long time has enough GPU hours for rules
				of.Until = begin.Add(4000 * time.Hour)
				n = 3
			}
			alone := make([]string, n)
			for i, m := range methods[:n] {
				source := open()
				alone[i] = m.call(t, source, of)
				check(t, source.Close())
			}
			if strings.Count(alone[1], "h ") != fleetHours || alone[0] == "" {
				t.Fatalf("%s returns %q, want %d hours", methods[1].name, alone[1], fleetHours)
			}
			orders(n, func(order []int) {
				source := open()
				defer source.Close()
				for i, m := range order {
					if diff := cmp.Diff(alone[m], methods[m].call(t, source, of)); diff != "" {
						t.Fatalf("%s after %v (-alone +now):\n%s", methods[m].name, order[:i], diff)
					}
				}
			})
		})
	}
	var sum int64
	of := books.Selection{From: begin, Until: begin.Add(fleetHours * time.Hour), Energy: true, By: []string{"namespace"}}
	for _, read := range []string{"samples", "rules"} {
		sum = 0
		source := openStore(t, url, read)
		check(t, source.Hours(t.Context(), of, func(h books.Hour) bool { sum += h.Energy; return true }))
		check(t, source.Close())
		if sum != energy {
			t.Errorf("%s: hours of %d mJ, the boards used %d", read, sum, energy)
		}
	}
}
