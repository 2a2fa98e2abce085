package ask

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// question is a question with its options and the books that it reads.
type question struct {
	options
	source   *reader
	now      time.Time
	progress func(string)
	// limited is set if the reader sees only a part of the books.
	limited bool
	// failed is set if the answer reports a problem, for example that the books are incomplete.
	failed bool
}

// maxRefused is the maximum number of boards that are listed for refused hours.
const maxRefused = 5

// refused returns notices about refused hours in a store. Statements omit the energy and money of
// these hours.
func (q *question) refused() []string { return refusals(q.source.refusals()) }

func refusals(all []books.Refusal) (notices []string) {
	for i, r := range all {
		if i == maxRefused {
			return append(notices, fmt.Sprintf("and %d more boards in refused hours", len(all)-i))
		}
		of := ofCluster(r.Cluster)
		notices = append(notices, fmt.Sprintf("hour %s%s is refused, so its energy, times and money are left out: board %s, %v", stamp(r.Hour), of, cmp.Or(r.Board.Serial, r.Board.UUID), r.Board))
	}
	return notices
}

// period returns the period that the question covers. It ends with a full hour: now, or the hour that contains --at.
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

// moment returns the period that the question covers. Unlike period, it ends exactly at --at, at --to, or now.
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

// settle is the part of an hour in which some exporters may not have been scraped yet.
const settle = 5 * time.Minute

// where narrows a query to rows with one of the given values in a column.
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

// pruned returns a notice if details are missing because the first hours in the selected time are pruned.
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
