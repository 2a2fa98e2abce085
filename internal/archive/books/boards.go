package books

import (
	"context"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// Boards implements [Source].
func (s *samples) Boards(ctx context.Context, of Selection) ([]Board, error) {
	if s.elsewhere(of) {
		return nil, nil
	}
	common := s.matchers(of, "cluster", "uuid", "serial", "node", "chassis_serial")
	if of.Counted {
		return s.counted(ctx, of, common)
	}
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

// board returns the board of a placement.
func (s *samples) board(l fold.Labels) Board {
	return Board{s.cluster(l), l.Get("node"), l.Get("UUID"), l.Get("serial"), l.Get("chassis_serial"), l.Get("chassis_slot"), l.Get("pci_bus_id"), 0}
}

const (
	// countHours is the number of hours that are counted at once.
	countHours = 24
	// probe and probeAt are a time within an hour, and its end: a board that is missing in the hour is missing in it.
	// It takes a third of the samples of the hour.
	probe   = "599999ms"
	probeAt = 35 * time.Minute
	whole   = "3599999ms"
)

// hourSet has a bit for each of countHours hours.
type hourSet uint32

// counted returns boards with the number of their hours. A board counts if it is there in the probe of an hour; if no board
// of the cluster is, the hour is read as a whole. It keeps the hours of clusters for [samples.Hours].
func (s *samples) counted(ctx context.Context, of Selection, common []string) (found []Board, err error) {
	series, err := s.store.Series(ctx, selector(placementMetric, common...), of.From, of.Until)
	if err != nil {
		return nil, err
	}
	all, clusters, filed := make(map[Board]int), make(map[string]bool), []Hour{}
	for _, l := range series {
		clusters[s.cluster(l)] = true
		all[s.board(l)] = 0
	}
	for first := of.From.Truncate(time.Hour); first.Before(of.Until); first = first.Add(countHours * time.Hour) {
		last := earlier(first.Add(countHours*time.Hour), of.Until).Add(-1).Truncate(time.Hour)
		s.Progress("reading the boards of " + first.Format(time.DateOnly))
		boards, err := s.present(ctx, selector(placementMetric, common...), probe, first.Add(probeAt), last.Add(probeAt))
		if err != nil {
			return nil, err
		}
		hours := make(map[string]hourSet)
		for b, set := range boards {
			hours[b.Cluster] |= set
		}
		for cluster := range clusters {
			missing := (1<<(last.Sub(first)/time.Hour+1) - 1) &^ hours[cluster]
			if missing == 0 {
				continue
			}
			text := s.store.Selector(placementMetric, cluster, common...)
			begin, end := bits.TrailingZeros32(uint32(missing)), bits.Len32(uint32(missing))
			more, err := s.present(ctx, text, whole, first.Add(time.Duration(begin+1)*time.Hour), first.Add(time.Duration(end)*time.Hour))
			if err != nil {
				return nil, err
			}
			for b, set := range more {
				set = set << begin & missing
				boards[b] |= set
				hours[cluster] |= set
			}
		}
		for b, set := range boards {
			all[b] += bits.OnesCount32(uint32(set))
		}
		for n := range countHours {
			for _, cluster := range slices.Sorted(maps.Keys(hours)) {
				if hours[cluster]>>n&1 == 1 {
					filed = append(filed, Hour{Cluster: cluster, Hour: first.Add(time.Duration(n) * time.Hour).UTC()})
				}
			}
		}
	}
	s.Progress("")
	s.filed[countKey(of)] = filed
	for b, n := range all {
		b.Hours = n
		found = append(found, b)
	}
	return found, nil
}

func countKey(of Selection) string { return fmt.Sprint(of.From, of.Until, of.Where) }

// present returns the hours in which boards are there in a window that ends at some moment of each hour.
func (s *samples) present(ctx context.Context, text, window string, first, last time.Time) (map[Board]hourSet, error) {
	found := make(map[Board]hourSet)
	err := s.store.Hourly(ctx, "last_over_time("+text+"["+window+"])", first, last, func(series fold.Series) {
		b := s.board(series.Labels)
		for _, x := range series.Samples {
			found[b] |= 1 << (time.UnixMilli(x.Time).Sub(first) / time.Hour)
		}
	})
	return found, err
}
