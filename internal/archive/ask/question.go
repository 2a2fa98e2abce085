package ask

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

type question struct {
	options
	source   *reader
	now      time.Time
	progress func(string)
	// limited is set if the reader's scope excludes a part of the source.
	limited bool
	// failed is set if the answer reports a problem, for example missing hours.
	failed bool
}

const maxRefused = 5

// refused returns notices about hours with impossible samples in a store. Statements contain no energy and no cost for
// these hours.
func (q *question) refused() []string { return refusals(q.source.refusals()) }

func refusals(all []books.Refusal) []string {
	return atMost(maxRefused, all, "boards in refused hours", func(r books.Refusal) string {
		return fmt.Sprintf("hour %s%s is refused, so its energy, times and money are left out: board %s, %v", stamp(r.Hour), ofCluster(r.Cluster), cmp.Or(r.Board.Serial, r.Board.UUID), r.Board)
	})
}

// atMost returns a notice about each of the first values. If there are more values, another notice contains their
// number.
func atMost[V any](limit int, all []V, others string, notice func(V) string) (notices []string) {
	for _, v := range all[:min(limit, len(all))] {
		notices = append(notices, notice(v))
	}
	if more := len(all) - limit; more > 0 {
		notices = append(notices, fmt.Sprintf("and %d more %s", more, others))
	}
	return notices
}

// reader collects the refused boards of all reads from a source.
type reader struct {
	books.Source
	limit int // maximum number of sums of charges; 0 means no limit
	known map[refusalKey]books.Refusal
}

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

// With --at, the period ends at the end of the hour that contains --at.
func (q *question) period() books.Query {
	end := q.now
	if !q.At.IsZero() {
		end = q.At.Time.Truncate(time.Hour).Add(time.Hour)
	}
	if !q.To.IsZero() {
		end = q.To.Truncate(time.Hour)
	}
	if settled := end.Truncate(time.Hour); q.now.Before(end.Add(settle)) && end.Sub(settled) < settle {
		end = settled
	}
	from := end.Add(-q.Since.Duration)
	if !q.From.IsZero() {
		from = q.From.Time
	}
	of := books.Query{From: from.UTC().Truncate(time.Hour), Until: end.UTC(), Where: make(map[string][]string)}
	if q.OfCluster != "" {
		of.Where["cluster"] = []string{q.OfCluster}
	}
	return of
}

// moment, unlike period, ends exactly at --at, at --to, or now.
func (q *question) moment() books.Query {
	of, end := q.period(), q.now
	for _, given := range []moment{q.To, q.At} {
		if !given.IsZero() {
			end = given.Time
		}
	}
	of.Until = earlier(end, q.now).UTC()
	if q.From.IsZero() {
		of.From = of.Until.Add(-q.Since.Duration).Truncate(time.Hour)
	}
	return of
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// settle is the waiting time after an hour. Before it has passed, a scrape of this hour may still be missing.
const settle = 5 * time.Minute

// where narrows a query to rows with one of the values in the column.
func where(of books.Query, column string, values ...string) books.Query {
	all := map[string][]string{column: values}
	for name, other := range of.Where {
		if name != column {
			all[name] = other
		}
	}
	of.Where = all
	return of
}

// pruned returns a notice if the first hours in the selected time are pruned. Details of these hours are missing.
func (q *question) pruned(ctx context.Context, of books.Query) (notices []string, err error) {
	if q.Books == "" {
		return nil, nil // hours of a store cannot be pruned
	}
	var end time.Time
	for h, failed := range q.source.Hours(ctx, of) {
		if failed != nil || h.State != table.Pruned {
			err = failed
			break
		}
		end = h.Hour.Add(time.Hour)
	}
	if !end.IsZero() {
		notices = append(notices, fmt.Sprintf("the details before %s are pruned", stamp(end)))
	}
	return notices, err
}
