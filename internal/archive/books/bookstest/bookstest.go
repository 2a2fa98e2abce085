// Package bookstest files books for tests. It also contains tests that every source of books must pass.
package bookstest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/test/fatal"
)

var must = fatal.If

// methods contains the methods that read a source. Each returns what it reads as text.
var methods = []struct {
	name string
	call func(t *testing.T, s books.Source, of books.Query) string
}{
	{"Statement", func(t *testing.T, s books.Source, of books.Query) string { return statement(t, s, of, "namespace") }},
	{"Hours", func(t *testing.T, s books.Source, of books.Query) (text string) {
		for h, err := range s.Hours(t.Context(), of) {
			must(t, err)
			text += h.Hour.Format("15h ")
		}
		return text
	}},
	{"Statement with checks and rows", func(t *testing.T, s books.Source, of books.Query) string {
		of.Checks, of.Rows = true, true
		return statement(t, s, of, "cluster", "hour")
	}},
	{"Rows", func(t *testing.T, s books.Source, of books.Query) string {
		var all []books.Row
		for row, err := range s.Rows(t.Context(), of) {
			must(t, err)
			all = append(all, row)
		}
		return rows(all)
	}},
	{"Boards", func(t *testing.T, s books.Source, of books.Query) string {
		found, err := s.Boards(t.Context(), of)
		must(t, err)
		return boards(found)
	}},
	{"Counted", func(t *testing.T, s books.Source, of books.Query) string {
		found, hours, err := s.Counted(t.Context(), of)
		must(t, err)
		return boards(found) + fmt.Sprint(hours)
	}},
}

// statement returns the hours and sums of a statement as text.
func statement(t *testing.T, s books.Source, of books.Query, by ...string) (text string) {
	of.By = by
	st, err := s.Statement(t.Context(), of)
	must(t, err)
	for _, h := range st.Hours {
		text += fmt.Sprintf("%s %d ", h.Hour.Format("15h"), h.Energy)
	}
	return text + rows(st.Rows) + fmt.Sprint(st.Charges, st.Refusals, st.UnknownPods, st.Uncounted, st.Bounded, st.Unmeasured, st.Unestimated)
}

func rows(all []books.Row) string {
	var texts []string
	for _, row := range all {
		texts = append(texts, fmt.Sprint(row.Hour, row.UUID, row.Energy))
	}
	return fmt.Sprint(texts)
}

func boards(all []books.Board) string {
	var texts []string
	for _, b := range all {
		texts = append(texts, fmt.Sprint(b.UUID, " ", b.Serial, b.Hours))
	}
	slices.Sort(texts)
	return fmt.Sprint(texts)
}

// orders calls each for every permutation of n numbers.
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

// All is the number of methods that the tests call.
var All = len(methods)

// TestOrder calls the first n methods in each order. Their answers must be the same as from a new source. hours is the
// number of hours that the query must find.
func TestOrder(t *testing.T, open func() books.Source, of books.Query, n, hours int) {
	t.Helper()
	alone := make([]string, n)
	for i, m := range methods[:n] {
		source := open()
		alone[i] = m.call(t, source, of)
		must(t, source.Close())
	}
	if strings.Count(alone[0], "h ") != hours || strings.Count(alone[1], "h ") != hours {
		t.Fatalf("%s returns %q, %s %q, want %d hours", methods[0].name, alone[0], methods[1].name, alone[1], hours)
	}
	orders(n, func(order []int) {
		source := open()
		for i, m := range order {
			if diff := cmp.Diff(alone[m], methods[m].call(t, source, of)); diff != "" {
				t.Fatalf("%s after %v differs from a new source (-new source +now):\n%s", methods[m].name, order[:i], diff)
			}
		}
		must(t, source.Close())
	})
	again(t, open, of, alone)
}

// again checks that an answer does not depend on an earlier call of the same method. The earlier call has the same
// query, or a query for another period and place.
func again(t *testing.T, open func() books.Source, of books.Query, alone []string) {
	t.Helper()
	other := of
	other.Until = of.From.Add(time.Hour)
	other.Where = map[string][]string{"cluster": {"elsewhere"}}
	source := open()
	for i, m := range methods[:len(alone)] {
		for _, before := range methods[:len(alone)] {
			before.call(t, source, other)
			for range 2 {
				if diff := cmp.Diff(alone[i], m.call(t, source, of)); diff != "" {
					t.Fatalf("%s after %s for another place differs from a new source (-new source +now):\n%s", m.name, before.name, diff)
				}
			}
		}
	}
	must(t, source.Close())
}
