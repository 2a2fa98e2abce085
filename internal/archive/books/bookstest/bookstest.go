// Package bookstest has tests that every source of books must pass.
package bookstest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// methods are the methods of a source, with their answers as text.
var methods = []struct {
	name string
	call func(t *testing.T, s books.Source, of books.Selection) string
}{
	{"Hours", func(t *testing.T, s books.Source, of books.Selection) (text string) {
		of.By = []string{"namespace"}
		must(t, s.Hours(t.Context(), of, func(h books.Hour) bool { text += h.Hour.Format("15h "); return true }))
		return text
	}},
	{"Hours with energy", func(t *testing.T, s books.Source, of books.Selection) (text string) {
		of.By, of.Energy = []string{"namespace"}, true
		must(t, s.Hours(t.Context(), of, func(h books.Hour) bool { text += fmt.Sprintf("%s %d ", h.Hour.Format("15h"), h.Energy); return true }))
		return text
	}},
	{"Charges", func(t *testing.T, s books.Source, of books.Selection) string {
		found, err := s.Charges(t.Context(), of, "namespace")
		must(t, err)
		return fmt.Sprint(found)
	}},
	{"UnknownPods", func(t *testing.T, s books.Source, of books.Selection) string {
		of.By = []string{"namespace"}
		found, err := s.UnknownPods(t.Context(), of)
		must(t, err)
		return fmt.Sprint(found)
	}},
	{"GPUs", func(t *testing.T, s books.Source, of books.Selection) string {
		var all []string
		must(t, s.GPUs(t.Context(), of, func(g table.GPU) { all = append(all, fmt.Sprint(g.Hour, g.UUID, g.Energy)) }))
		return fmt.Sprint(all)
	}},
	{"Boards", func(t *testing.T, s books.Source, of books.Selection) string {
		found, err := s.Boards(t.Context(), of)
		must(t, err)
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

// All is the number of tested methods.
var All = len(methods)

// TestOrder checks that the first n methods return the same answers in every order of calls as each on a new source. The
// selection must have a number of hours.
func TestOrder(t *testing.T, open func() books.Source, of books.Selection, n, hours int) {
	t.Helper()
	alone := make([]string, n)
	for i, m := range methods[:n] {
		source := open()
		alone[i] = m.call(t, source, of)
		must(t, source.Close())
	}
	if strings.Count(alone[1], "h ") != hours || alone[0] == "" {
		t.Fatalf("%s returns %q, want %d hours", methods[1].name, alone[1], hours)
	}
	orders(n, func(order []int) {
		source := open()
		for i, m := range order {
			if diff := cmp.Diff(alone[m], methods[m].call(t, source, of)); diff != "" {
				t.Fatalf("%s after %v (-alone +now):\n%s", methods[m].name, order[:i], diff)
			}
		}
		must(t, source.Close())
	})
	counted := of
	counted.Counted = true
	var all []string
	for _, order := range [][]int{{0}, {5, 0}, {0, 5, 0}} {
		source, text := open(), ""
		for _, m := range order {
			text = methods[m].call(t, source, counted)
		}
		all = append(all, text)
		must(t, source.Close())
	}
	if all[0] != all[1] || all[1] != all[2] || all[0] == "" {
		t.Errorf("Hours that are counted with Boards depend on the order of calls: %q", all)
	}
}
