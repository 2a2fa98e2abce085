// Package bookstest writes archives for tests, and contains a test that every [books.Source] must pass.
package bookstest

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/test/fatal"
)

var must = fatal.If

var methods = []func(t *testing.T, s books.Source, of books.Query) any{
	func(t *testing.T, s books.Source, of books.Query) any { return statement(t, s, of, "namespace") },
	func(t *testing.T, s books.Source, of books.Query) any { return values(t, s.Hours(t.Context(), of)) },
	func(t *testing.T, s books.Source, of books.Query) any {
		of.Checks, of.Rows = true, true
		return statement(t, s, of, "cluster", "hour")
	},
	func(t *testing.T, s books.Source, of books.Query) any { return values(t, s.Rows(t.Context(), of)) },
	func(t *testing.T, s books.Source, of books.Query) any {
		found, err := s.Boards(t.Context(), of)
		must(t, err)
		return sorted(found)
	},
	func(t *testing.T, s books.Source, of books.Query) any {
		found, hours, err := s.Counted(t.Context(), of)
		must(t, err)
		return []any{sorted(found), hours}
	},
}

func statement(t *testing.T, s books.Source, of books.Query, by ...string) *books.Statement {
	of.By = by
	st, err := s.Statement(t.Context(), of)
	must(t, err)
	return st
}

func values[T any](t *testing.T, of iter.Seq2[T, error]) (all []T) {
	for value, err := range of {
		must(t, err)
		all = append(all, value)
	}
	return all
}

func sorted(boards []books.Board) []books.Board {
	return slices.SortedFunc(slices.Values(boards), func(a, b books.Board) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}

// All is the number of read methods that [TestOrder] can call.
var All = len(methods)

// TestOrder checks that answers do not depend on earlier calls. It calls the first n read methods, each in a new source
// and again after a call of any other method. Both answers must be equal. The other call has the same query, or a query
// for another period and cluster. The query must find the given number of hours.
func TestOrder(t *testing.T, open func() books.Source, of books.Query, n, hours int) {
	t.Helper()
	other := of
	other.Until, other.Where = of.From.Add(time.Hour), map[string][]string{"cluster": {"elsewhere"}}
	alone := make([]any, n)
	for i, method := range methods[:n] {
		source := open()
		alone[i] = method(t, source, of)
		must(t, source.Close())
	}
	if st, all := alone[0].(*books.Statement), alone[1].([]books.Hour); len(st.Hours) != hours || len(all) != hours {
		t.Fatalf("the statement has the hours %v, and the source has %v, want %d hours", st.Hours, all, hours)
	}
	source := open()
	for i, method := range methods[:n] {
		for before, earlier := range methods[:n] {
			for _, query := range []books.Query{of, other} {
				earlier(t, source, query)
				if diff := cmp.Diff(alone[i], method(t, source, of)); diff != "" {
					t.Fatalf("method %d after method %d differs from a new source (-new source +now):\n%s", i, before, diff)
				}
			}
		}
	}
	must(t, source.Close())
}
