package books

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// Boards implements [Source].
func (s *samples) Boards(ctx context.Context, of Query) ([]Board, error) {
	if s.elsewhere(of) {
		return nil, nil
	}
	common := s.matchers(of, "cluster", "uuid", "serial", "node", "chassis_serial")
	selectors := []string{selector(placementMetric, common...)}
	if of.Named != "" {
		selectors = nil
		for _, column := range []string{"serial", "uuid", "node", "chassis_serial"} {
			selectors = append(selectors, selector(placementMetric, append(slices.Clone(common), matcher(column, []string{of.Named}))...))
		}
	}
	all := make(map[Board]bool)
	add := func(l fold.Labels) { all[s.board(l)] = true }
	for _, text := range selectors {
		if length := of.Until.Sub(of.From); length <= 2*time.Hour {
			err := s.store.Query(ctx, fmt.Sprintf("last_over_time(%s[%ds])", text, int(length.Seconds())), of.Until, func(found fold.Series) { add(found.Labels) })
			if err != nil {
				return nil, err
			}
			continue
		}
		found, err := s.store.Series(ctx, text, of.From, of.Until)
		if err != nil {
			return nil, err
		}
		for _, l := range found {
			add(l)
		}
	}
	return slices.Collect(maps.Keys(all)), nil
}

func (s *samples) board(l fold.Labels) Board {
	return Board{s.cluster(l), l.Get("node"), l.Get("UUID"), l.Get("serial"), l.Get("chassis_serial"), l.Get("chassis_slot"), l.Get("pci_bus_id"), 0}
}

const (
	countHours = 192
	// A query first reads only a window of each hour, because a store then reads fewer samples. probe is the length of
	// the window, and probeAt is its end. If no board of the cluster has a sample in the window, the whole hour is
	// read.
	probe   = "179999ms"
	probeAt = 35 * time.Minute
	whole   = "3599999ms"
)

type hourSet [countHours]bool

func (s *hourSet) count() (n int) {
	for _, has := range s {
		if has {
			n++
		}
	}
	return n
}

// counting counts the hours in which boards were scraped.
type counting struct {
	*samples
	common []string // PromQL matchers
	first  time.Time
	n      int // number of hours
	boards map[Board]*hourSet
	// clusters contains the hours of each cluster in which at least one board was scraped.
	clusters map[string]*hourSet
}

// Counted implements [Source].
func (s *samples) Counted(ctx context.Context, of Query) (found []Board, filed []Hour, err error) {
	if s.elsewhere(of) {
		return nil, nil, nil
	}
	common := s.matchers(of, "cluster", "uuid", "serial", "node", "chassis_serial")
	series, err := s.store.Series(ctx, selector(placementMetric, common...), of.From, of.Until)
	if err != nil {
		return nil, nil, err
	}
	all := make(map[Board]int)
	for _, l := range series {
		all[s.board(l)] = 0
	}
	for first := of.From.Truncate(time.Hour); first.Before(of.Until); first = first.Add(countHours * time.Hour) {
		hours := int((of.Until.Sub(first) + time.Hour - 1) / time.Hour)
		c := &counting{s, common, first.UTC(), min(hours, countHours), make(map[Board]*hourSet), make(map[string]*hourSet)}
		for b := range all {
			c.clusters[b.Cluster] = new(hourSet)
		}
		s.Progress("reading the boards since " + first.Format(time.DateOnly))
		if err := c.count(ctx); err != nil {
			return nil, nil, err
		}
		for b, set := range c.boards {
			all[b] += set.count()
		}
		filed = append(filed, c.filed()...)
	}
	s.Progress("")
	for b, n := range all {
		b.Hours = n
		found = append(found, b)
	}
	return found, filed, nil
}

func (c *counting) count(ctx context.Context) error {
	probed := "last_over_time(" + selector(placementMetric, c.common...) + "[" + probe + "])"
	if err := c.read(ctx, probed, hourRange{0, c.n}, probeAt); err != nil {
		return err
	}
	for cluster, set := range c.clusters {
		known := *set
		for n := 0; n < c.n; n++ {
			end := n
			for end < c.n && !known[end] {
				end++
			}
			if end == n {
				continue
			}
			read := "last_over_time(" + c.store.Selector(placementMetric, cluster, c.common...) + "[" + whole + "])"
			if err := c.read(ctx, read, hourRange{n, end}, time.Hour); err != nil {
				return err
			}
			n = end
		}
	}
	return nil
}

// hourRange is a range of hours. It includes first and excludes end. Hour 0 is counting.first.
type hourRange struct{ first, end int }

// read evaluates a query once per hour of a range. at is the offset from the start of the hour.
func (c *counting) read(ctx context.Context, text string, of hourRange, at time.Duration) error {
	hour := func(n int) time.Time { return c.first.Add(time.Duration(n)*time.Hour + at) }
	return c.store.Hourly(ctx, text, hour(of.first), hour(of.end-1), func(series fold.Series) {
		b := c.board(series.Labels)
		if c.boards[b] == nil {
			c.boards[b] = new(hourSet)
		}
		if c.clusters[b.Cluster] == nil {
			c.clusters[b.Cluster] = new(hourSet)
		}
		for _, x := range series.Samples {
			n := int(time.UnixMilli(x.Time).Sub(hour(0)) / time.Hour)
			c.boards[b][n] = true
			c.clusters[b.Cluster][n] = true
		}
	})
}

func (c *counting) filed() (all []Hour) {
	for n := range c.n {
		for _, cluster := range slices.Sorted(maps.Keys(c.clusters)) {
			if c.clusters[cluster][n] {
				all = append(all, Hour{Cluster: cluster, Hour: c.first.Add(time.Duration(n) * time.Hour)})
			}
		}
	}
	return all
}
