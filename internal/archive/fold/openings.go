package fold

import (
	"maps"
	"slices"
	"time"
)

// Board identifies a GPU on a node.
type Board struct{ Node, UUID string }

// Closings returns the last plausible sample of each counter. This sample is the opening value of the next hour. If
// scrapes of the GPU were dropped, its time is the first time at which the counter had this value.
func (in *Input) Closings() Openings {
	o := make(Openings, len(in.Series))
	doubtful := make(map[gpuKey]bool)
	for _, s := range in.Series {
		o.Add(s)
		n := len(s.Samples)
		if c := opened[s.Labels.Metric()]; c != nil && n > 0 {
			before, known := in.Openings[c.account(s.Labels)]
			if n > 1 {
				before, known = s.Samples[n-2], true
			}
			if known && in.isDoubtful(c, before, s.Samples[n-1]) {
				doubtful[gpuOf(s.Labels)] = true
			}
		}
	}
	for _, b := range in.some(doubtful) {
		if b.settle() == nil && len(b.dropped) > 0 {
			maps.Copy(o, b.closings())
		}
	}
	return o
}

// isDoubtful reports whether a step between two samples may be implausible. A restart of the counter is also doubtful.
func (in *Input) isDoubtful(c *counter, a, b Sample) bool {
	before, exact := c.exact(a.Value)
	now, ok := c.exact(b.Value)
	t := track{counter: c, rate: c.kind.rate(in.power())}
	return !exact || !ok || now < before || now-before > t.most(b.Time-a.Time)
}

func (in *Input) some(gpus map[gpuKey]bool) map[gpuKey]*board {
	if len(gpus) == 0 {
		return nil
	}
	part := *in
	part.Series = slices.DeleteFunc(slices.Clone(in.Series), func(s Series) bool { return !gpus[gpuOf(s.Labels)] })
	return boardsOf(&part)
}

// The caller must call settle before closings.
func (b *board) closings() Openings {
	o := make(Openings)
	for _, t := range b.tracks {
		if t.last.time != 0 {
			o[t.account] = Sample{t.last.moved, float64(t.last.value) / t.unit}
		}
	}
	for a, samples := range b.created {
		for _, s := range slices.Backward(samples) {
			if !b.dropped[s.Time] {
				o[a] = s
				break
			}
		}
	}
	return o
}

// Doubtful returns the GPUs whose samples are implausible after their opening values. These opening values may be
// wrong; see [Input.Reopen].
func (in *Input) Doubtful() (boards []Board) {
	seen, certain := in.wrongOpenings()
	present, doubtful := make(map[gpuKey]bool), make(map[gpuKey]bool)
	for _, s := range in.Series {
		c := opened[s.Labels.Metric()]
		if c == nil || c.add == nil || len(s.Samples) == 0 {
			continue
		}
		k := gpuOf(s.Labels)
		present[k] = true
		if doubt, known := in.beginsDoubtful(c, s); doubt {
			doubtful[k] = true
			certain[k] = certain[k] || !known && seen[k]
		}
	}
	for k, b := range in.some(doubtful) {
		if certain[k] || b.settle() != nil || len(b.dropped) > 0 {
			certain[k] = true
		}
	}
	for k, is := range certain {
		if is && present[k] {
			boards = append(boards, Board{k.node, k.uuid})
		}
	}
	slices.SortFunc(boards, func(a, b Board) int { return slices.Compare([]string{a.Node, a.UUID}, []string{b.Node, b.UUID}) })
	return boards
}

// beginsDoubtful reports whether the first increase of a counter is doubtful. known is set if the counter has an
// opening value. A counter without an opening value is assumed to begin at 0.
func (in *Input) beginsDoubtful(c *counter, s Series) (doubtful, known bool) {
	opening, known := in.Openings[c.account(s.Labels)]
	if !known {
		opening.Time = s.Samples[0].Time
	}
	moved := slices.IndexFunc(s.Samples, func(x Sample) bool { return x.Value != opening.Value })
	return moved >= 0 && in.isDoubtful(c, opening, s.Samples[moved]), known
}

// seen contains the GPUs with opening values. certain contains the GPUs with an opening value that is certainly wrong.
func (in *Input) wrongOpenings() (seen, certain map[gpuKey]bool) {
	seen, certain = make(map[gpuKey]bool), make(map[gpuKey]bool)
	for a, s := range in.Openings {
		seen[a.gpuKey] = true
		// If a pod has more energy than its board, one of the two values is wrong. It may be the last value of a pod
		// that has ended.
		board, known := in.Openings[Account{gpuKey: a.gpuKey, metric: boardEnergy}]
		if c := opened[a.metric]; c.add != nil && (!isExact(s.Value*c.unit) || c.kind.ofEnergy() && known && s.Value > board.Value) {
			certain[a.gpuKey] = true
		}
	}
	return seen, certain
}

// Reopen replaces the opening values of GPUs. The new values come from samples before the hour.
func (in *Input) Reopen(before []Series) {
	for _, window := range []time.Duration{Lookback, time.Hour} { // a day may contain several wrong values
		past := Input{Start: in.Start.Add(-window), MaxPower: in.MaxPower}
		from, until := past.Start.UnixMilli(), in.Start.UnixMilli()
		for _, s := range before {
			s.Samples = slices.DeleteFunc(slices.Clone(s.Samples), func(x Sample) bool { return x.Time <= from || x.Time > until })
			past.Series = append(past.Series, s)
		}
		before = before[:0:0]
		for k, b := range boardsOf(&past) {
			if b.settle() == nil {
				maps.Copy(in.Openings, b.closings())
				continue
			}
			for _, s := range past.Series {
				if gpuOf(s.Labels) == k {
					before = append(before, s)
				}
			}
		}
	}
}

func (in *Input) power() int64 {
	if in.MaxPower > 0 {
		return in.MaxPower
	}
	return DefaultMaxPower
}
