package gpu

import (
	"maps"
	"slices"
	"strings"
)

// A Counter is a counter of errors of a part of a GPU, such as a link. It may restart with its part,
// or when the driver is loaded.
type Counter struct {
	// Metric and Labels identify the sum of the counters of all parts.
	Metric HealthMetric
	Labels []string
	// Name identifies the counter of the GPU. It ends with the part.
	Name  string
	Count uint64
}

// NewCounter returns a counter at 0.
func NewCounter(m HealthMetric, labels []string, part string) Counter {
	return Counter{Metric: m, Labels: labels, Name: HealthInfos[m].Name + "/" + strings.Join(labels, "/") + "/" + part}
}

// sum returns the part of the name that the counters of a sum share.
func (c *Counter) sum() string { return c.Name[:strings.LastIndexByte(c.Name, '/')+1] }

// A Count is the last value of a [Counter], and the sum of its first value and its growth. If a
// value is lower than the last one, the counter restarted, and the value is its growth.
type Count struct {
	Last  uint64 `json:"last"`
	Total uint64 `json:"total"`
}

// plus returns the count after another value.
func (c Count) plus(n uint64) Count {
	if n < c.Last {
		return Count{n, c.Total + n}
	}
	return Count{n, c.Total + n - c.Last}
}

// Counts are the counts of a GPU by the names of their counters. A count of 0 is missing.
type Counts map[string]Count

// Plus returns the counts after a reading. It does not change x.
func (x Counts) Plus(read []Counter) Counts {
	grown, cloned := x, false
	for i := range read {
		c := &read[i]
		old := grown[c.Name]
		if old.Last == c.Count {
			continue
		}
		if !cloned {
			grown, cloned = maps.Clone(x), true
			if grown == nil {
				grown = make(Counts)
			}
		}
		grown[c.Name] = old.plus(c.Count)
	}
	return grown
}

// Continue returns the counts after counts that began later, of the same counters.
func (x Counts) Continue(later Counts) Counts {
	all := maps.Clone(x)
	if all == nil {
		all = make(Counts)
	}
	for name, c := range later {
		all[name] = all[name].plus(c.Last)
	}
	return all
}

// Totals returns the sums over the parts of the counters in a reading. A part that is missing in the
// reading keeps its last total, so that a sum does not fall.
func (x Counts) Totals(read []Counter) (totals []HealthValue) {
	for i := range read {
		c := &read[i]
		v, sum := HealthValue{Metric: c.Metric, Labels: c.Labels}, c.sum()
		if slices.ContainsFunc(totals, v.sameAs) {
			continue
		}
		for name, count := range x {
			if strings.HasPrefix(name, sum) {
				v.Value += float64(count.Total)
			}
		}
		totals = append(totals, v)
	}
	return totals
}
