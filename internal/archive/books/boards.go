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
	selectors := []string{selector(placementMetric, common...)}
	if of.Named != "" {
		selectors = nil
		for _, column := range []string{"serial", "uuid", "node", "chassis_serial"} {
			selectors = append(selectors, selector(placementMetric, append(slices.Clone(common), matcher(column, []string{of.Named}))...))
		}
	}
	if of.Counted {
		return s.counted(ctx, selectors, of)
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

// counted returns boards with their hours, which it reads by the day.
func (s *samples) counted(ctx context.Context, selectors []string, of Selection) (found []Board, err error) {
	const length = 24
	all := make(map[Board]int)
	for first := of.From.Truncate(time.Hour); first.Before(of.Until); first = first.Add(length * time.Hour) {
		hours := make(map[Board]uint32) // a bit for each hour: a board may have several series
		last := earlier(first.Add(length*time.Hour), of.Until).Add(-1).Truncate(time.Hour)
		s.Progress("reading the boards of " + first.Format(time.DateOnly))
		for _, text := range selectors {
			err := s.store.Hourly(ctx, "last_over_time("+text+"[3599999ms])", first.Add(time.Hour), last.Add(time.Hour), func(series fold.Series) {
				b := s.board(series.Labels)
				for _, x := range series.Samples {
					hours[b] |= 1 << (time.UnixMilli(x.Time).Sub(first)/time.Hour - 1)
				}
			})
			if err != nil {
				return nil, err
			}
		}
		for b, set := range hours {
			all[b] += bits.OnesCount32(set)
		}
	}
	s.Progress("")
	for b, n := range all {
		b.Hours = n
		found = append(found, b)
	}
	return found, nil
}
