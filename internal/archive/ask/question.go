package ask

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// question is a question with its options and its books.
type question struct {
	options
	source   books.Source
	now      time.Time
	progress func(string)
	// failed is set if the answer reports a problem, such as incomplete books.
	failed bool
}

// UnknownError means that the books have no such board, pod or workload.
type UnknownError struct {
	Name string
	// Closest are similar serial numbers.
	Closest []string
	Source  string
	Since   time.Time
}

func (e *UnknownError) Error() string {
	text := fmt.Sprintf("%s has no board, node or chassis %q since %s", e.Source, e.Name, e.Since.Format(time.DateOnly))
	if len(e.Closest) > 0 {
		return text + ": did you mean " + strings.Join(e.Closest, ", ") + "?"
	}
	return text + ": check the name, or set --since"
}

// maxRefused is the number of refused boards of hours that are listed.
const maxRefused = 5

// refused returns notices about hours of a store without energy and money.
func (q *question) refused() []string { return refusals(q.source.Refused()) }

func refusals(all []books.Refusal) (notices []string) {
	for i, r := range all {
		if i == maxRefused {
			return append(notices, fmt.Sprintf("and %d more boards of refused hours", len(all)-i))
		}
		of := ofCluster(r.Cluster)
		notices = append(notices, fmt.Sprintf("hour %s%s is refused, its energy, times and money are left out: board %s, %v", stamp(r.Hour), of, cmp.Or(r.Board.Serial, r.Board.UUID), r.Board))
	}
	return notices
}

// period returns the time of the question: full hours until now, or until the hour after --at.
func (q *question) period() books.Selection {
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
	of := books.Selection{From: from.UTC().Truncate(time.Hour), Until: end.UTC(), Where: make(map[string][]string)}
	if q.OfCluster != "" {
		of.Where["cluster"] = []string{q.OfCluster}
	}
	return of
}

// settle is the time after the start of an hour in which not all exporters may have been scraped.
const settle = 5 * time.Minute

// where returns a selection with allowed values of a column.
func where(of books.Selection, column string, values ...string) books.Selection {
	all := map[string][]string{column: values}
	for name, other := range of.Where {
		if name != column {
			all[name] = other
		}
	}
	of.Where = all
	return of
}

// boards returns the UUIDs of the boards with a name, sorted, and notices about ambiguous names.
// The kind of the name is serial, uuid, node or chassis.
func (q *question) boards(ctx context.Context, name string, of books.Selection) (uuids []string, kind string, notices []string, err error) {
	if serial := q.assets.SerialOf(name); serial != "" {
		name = serial
	}
	of.Named = name
	found, err := q.source.Boards(ctx, of)
	if err != nil {
		return nil, "", nil, err
	}
	if len(found) == 0 {
		return nil, "", nil, q.unknown(ctx, name, of)
	}
	kinds, clusters := make(map[string]bool), make(map[string]bool)
	for _, b := range found {
		for _, k := range b.Is(name) {
			kinds[k] = true
		}
		clusters[b.Cluster] = true
		uuids = append(uuids, b.UUID)
	}
	all := slices.Sorted(maps.Keys(kinds))
	if len(all) > 1 {
		notices = append(notices, fmt.Sprintf("%s is the name of a %s: all of them are listed", name, strings.Join(all, " and of a ")))
	}
	kind = all[len(all)-1] // a node rather than a chassis, a serial rather than a node
	if kind == "node" && len(clusters) > 1 {
		notices = append(notices, fmt.Sprintf("%s is a node in the clusters %s: select one with --of-cluster", name, strings.Join(slices.Sorted(maps.Keys(clusters)), ", ")))
	}
	slices.Sort(uuids)
	return slices.Compact(uuids), kind, notices, nil
}

// unknown returns the error of an unknown name.
func (q *question) unknown(ctx context.Context, name string, of books.Selection) error {
	unknown := &UnknownError{Name: name, Source: q.source.Name(), Since: of.From}
	of.Named = ""
	found, err := q.source.Boards(ctx, of)
	if err != nil {
		return err
	}
	serials := make(map[string]bool)
	for _, b := range found {
		if b.Serial != "" {
			serials[b.Serial] = true
		}
	}
	unknown.Closest = closest(name, slices.Sorted(maps.Keys(serials)))
	return unknown
}

// pruned returns a notice if the details of the first hours of a time are pruned.
func (q *question) pruned(ctx context.Context, of books.Selection) (notices []string, err error) {
	if q.Books == "" {
		return nil, nil // a store is not pruned
	}
	var end time.Time
	err = q.source.Hours(ctx, of, func(h books.Hour) bool {
		if h.State == table.Pruned {
			end = h.Hour.Add(time.Hour)
		}
		return h.State == table.Pruned
	})
	if !end.IsZero() {
		notices = append(notices, fmt.Sprintf("the details before %s are pruned", stamp(end)))
	}
	return notices, err
}
