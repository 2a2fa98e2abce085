package store

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// Last returns the last sample of each series of a selector in (after, until]. Its time is the time of
// the query.
func (s *Store) Last(ctx context.Context, selector string, after, until time.Time) (found []fold.Series, err error) {
	// Prometheus 2 includes a sample at the beginning of the window.
	window := strconv.FormatInt(until.Sub(after).Milliseconds()-1, 10) + "ms"
	err = s.ask(ctx, "last_over_time("+selector+"["+window+"])", until, func(x fold.Series) {
		if len(x.Samples) > 0 {
			found = append(found, x)
		}
	})
	return found, err
}

// Scrapes returns the times of the successful scrapes of each target in an hour, by node, in
// milliseconds since the epoch.
func (s *Store) Scrapes(ctx context.Context, cluster string, hour time.Time) (map[string][][]int64, error) {
	series, err := s.Raw(ctx, "up"+s.matchers(cluster, recordJob), hour, hour.Add(time.Hour))
	if err != nil {
		return nil, err
	}
	scrapes := make(map[string][][]int64)
	for _, x := range series {
		var times []int64
		for _, sample := range x.Samples {
			if sample.Value == 1 {
				times = append(times, sample.Time)
			}
		}
		node := x.Labels.Get("node")
		scrapes[node] = append(scrapes[node], times)
	}
	return scrapes, nil
}

// Place is a node on which a GPU was read.
type Place struct{ Cluster, Node, UUID string }

// BoardsOf returns the boards of some nodes of a cluster in (after, until].
func (s *Store) BoardsOf(ctx context.Context, cluster string, nodes []string, after, until time.Time) ([]Place, error) {
	return s.places(ctx, "node", nodes, func(matcher string) string { return s.matchers(cluster, matcher) }, after, until)
}

// Readings returns the places of some GPUs in all clusters in (after, until].
func (s *Store) Readings(ctx context.Context, uuids []string, after, until time.Time) ([]Place, error) {
	return s.places(ctx, "UUID", uuids, func(matcher string) string { return "{" + matcher + "}" }, after, until)
}

// places returns the boards with some values of a label.
func (s *Store) places(ctx context.Context, label string, values []string, matchers func(string) string, after, until time.Time) (all []Place, err error) {
	values = slices.Clone(values)
	for i := range values {
		values[i] = regexp.QuoteMeta(values[i])
	}
	for some := range slices.Chunk(values, maxAccounts) {
		found, err := s.Last(ctx, boardEnergy+matchers(label+"=~"+strconv.Quote(strings.Join(some, "|"))), after, until)
		if err != nil {
			return nil, err
		}
		for _, x := range found {
			p := Place{x.Labels.Get("cluster"), x.Labels.Get("node"), x.Labels.Get("UUID")}
			if s.config.Cluster != "" {
				p.Cluster = s.config.Cluster
			}
			all = append(all, p)
		}
	}
	return all, nil
}
