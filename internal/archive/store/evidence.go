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

// Last returns the last sample of each matching series in a window. The time of each sample is the end of the window.
func (s *Store) Last(ctx context.Context, selector string, of Window) (found []fold.Series, err error) {
	// In Prometheus 2, the window includes a sample at its start.
	window := strconv.FormatInt(of.Until.Sub(of.After).Milliseconds()-1, 10) + "ms"
	err = s.ask(ctx, "last_over_time("+selector+"["+window+"])", of.Until, func(x fold.Series) {
		if len(x.Samples) > 0 {
			found = append(found, x)
		}
	})
	return found, err
}

// Scrapes returns the times of successful scrapes in an hour, in milliseconds since the epoch. Each node has one list
// for each of its targets.
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

// BoardsOf returns the boards that were read on the given nodes in a window.
func (s *Store) BoardsOf(ctx context.Context, cluster string, nodes []string, in Window) ([]Place, error) {
	var selectors []string
	for _, matcher := range matching("node", nodes) {
		selectors = append(selectors, s.Selector(boardEnergy, cluster, matcher))
	}
	return s.places(ctx, selectors, in)
}

// Readings returns the nodes on which GPUs were read in a window, in all clusters.
func (s *Store) Readings(ctx context.Context, uuids []string, in Window) ([]Place, error) {
	var selectors []string
	for _, matcher := range matching("UUID", uuids) {
		selectors = append(selectors, boardEnergy+"{"+matcher+"}")
	}
	return s.places(ctx, selectors, in)
}

// maxAccounts is the maximum number of values in the matchers of a query.
const maxAccounts = 500

// matching returns matchers with at most maxAccounts values each. Together they match all values of a label.
func matching(label string, values []string) (matchers []string) {
	for some := range slices.Chunk(values, maxAccounts) {
		var patterns []string
		for _, value := range some {
			patterns = append(patterns, regexp.QuoteMeta(value))
		}
		matchers = append(matchers, label+"=~"+strconv.Quote(strings.Join(patterns, "|")))
	}
	return matchers
}

func (s *Store) places(ctx context.Context, selectors []string, in Window) (all []Place, err error) {
	for _, selector := range selectors {
		found, err := s.Last(ctx, selector, in)
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
