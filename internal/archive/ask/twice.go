package ask

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

type pair struct{ a, b string }

type shared struct {
	first  time.Time
	hours  map[time.Time]bool
	boards map[string]bool
	board  string // first board that was found
}

// twice finds clusters that contain the same board at the same time. The reason is usually that the same samples were
// stored under two cluster names. twice compares each selected cluster with all clusters, and returns a notice for each
// pair.
func (q *question) twice(ctx context.Context, of books.Query, checks map[string]*check) (notices []string, err error) {
	if q.OfCluster == "" && len(checks) < 2 {
		return nil, nil
	}
	of.Where, of.Places = nil, true
	found, err := q.source.Boards(ctx, of)
	if err != nil {
		return nil, err
	}
	uuids := inClusters(found)
	if len(uuids) == 0 {
		return nil, nil
	}
	all, known := make(map[pair]*shared), make(map[string][]table.Seen) // keyed by UUID, for one hour
	var hour time.Time
	for g, err := range q.source.Rows(ctx, where(of, "uuid", uuids...)) {
		if err != nil {
			return nil, err
		}
		if g.Scrapes == 0 {
			continue
		}
		if !g.Hour.Equal(hour) {
			hour = g.Hour
			clear(known)
		}
		now := table.Seen{Cluster: g.Cluster, Node: g.Node, UUID: g.UUID, Serial: g.Serial, First: g.First, Last: g.Last}
		for _, other := range known[g.UUID] {
			if now.Twice(&other) {
				add(all, &now, &other, hour)
			}
		}
		known[g.UUID] = append(known[g.UUID], now)
	}
	return q.markTwice(all, checks), nil
}

func inClusters(boards []books.Board) []string {
	clusters, uuids := make(map[string]string), make(map[string]bool)
	for _, b := range boards {
		if other, ok := clusters[b.UUID]; ok && other != b.Cluster {
			uuids[b.UUID] = true
		}
		clusters[b.UUID] = b.Cluster
	}
	return slices.Sorted(maps.Keys(uuids))
}

func add(all map[pair]*shared, a, b *table.Seen, hour time.Time) {
	key := pair{min(a.Cluster, b.Cluster), max(a.Cluster, b.Cluster)}
	if all[key] == nil {
		all[key] = &shared{first: hour, hours: make(map[time.Time]bool), boards: make(map[string]bool), board: cmp.Or(a.Serial, a.UUID)}
	}
	all[key].hours[hour], all[key].boards[a.UUID] = true, true
}

func (q *question) markTwice(all map[pair]*shared, checks map[string]*check) (notices []string) {
	for _, key := range slices.SortedFunc(maps.Keys(all), func(a, b pair) int { return cmp.Or(cmp.Compare(a.a, b.a), cmp.Compare(a.b, b.b)) }) {
		if q.OfCluster != "" && q.OfCluster != key.a && q.OfCluster != key.b {
			continue
		}
		s := all[key]
		notices = append(notices, fmt.Sprintf("%d boards, such as %s, are in %s and %s at the same time in %d hours (first hour: %s): the same samples are filed under two names, so delete the hours of one name as described in docs/dba.md",
			len(s.boards), s.board, key.a, key.b, len(s.hours), stamp(s.first)))
		for _, name := range []string{key.a, key.b} {
			if c := checks[name]; c != nil {
				c.twice = true
			}
		}
	}
	return notices
}
