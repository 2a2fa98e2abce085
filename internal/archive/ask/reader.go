package ask

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
)

// reader reads the books for a question. It remembers the refusals that it finds.
type reader struct {
	books.Source
	limit int // maximum number of sums of charges; 0 means no limit
	known map[refusalKey]books.Refusal
}

// refusalKey identifies a board in a refused hour.
type refusalKey struct {
	cluster, node, uuid string
	hour                time.Time
}

func newReader(source books.Source) *reader {
	return &reader{Source: source, known: make(map[refusalKey]books.Refusal)}
}

func (r *reader) add(all []books.Refusal) {
	for _, refusal := range all {
		key := refusalKey{refusal.Cluster, refusal.Board.Node, refusal.Board.UUID, refusal.Hour.UTC()}
		if _, known := r.known[key]; !known {
			r.known[key] = refusal
		}
	}
}

// refusals returns the refusals that were found, sorted by cluster, hour and board.
func (r *reader) refusals() []books.Refusal {
	all := slices.Collect(maps.Values(r.known))
	books.SortRefusals(all)
	return all
}

// Statement implements [books.Source].
func (r *reader) Statement(ctx context.Context, of books.Query) (*books.Statement, error) {
	of.Limit = r.limit
	st, err := r.Source.Statement(ctx, of)
	if err != nil {
		return nil, err
	}
	r.add(st.Refusals)
	return st, nil
}

// Rows implements [books.Source].
func (r *reader) Rows(ctx context.Context, of books.Query) iter.Seq2[books.Row, error] {
	return func(yield func(books.Row, error) bool) {
		for row, err := range r.Source.Rows(ctx, of) {
			r.add(row.Refusals())
			if !yield(row, err) {
				return
			}
		}
	}
}
