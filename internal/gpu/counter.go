package gpu

import (
	"maps"
	"slices"
	"strings"
)

// A Counter counts the errors in one part of a GPU, such as a link. It may restart when the part
// restarts or when the driver is loaded.
type Counter struct {
	// Metric and Labels identify the sum to which the counter belongs. This sum is the sum over all
	// parts of the GPU.
	Metric HealthMetric
	Labels []string
	// Name identifies the counter among the counters of the GPU. It ends with the name of the part.
	Name  string
	Count uint64
}

// NewCounter returns a counter at 0.
func NewCounter(m HealthMetric, labels []string, part string) Counter {
	return Counter{Metric: m, Labels: labels, Name: HealthInfos[m].Name + "/" + strings.Join(labels, "/") + "/" + part}
}

// sum returns the part of the name that is common to all counters with the same sum.
func (c *Counter) sum() string { return c.Name[:strings.LastIndexByte(c.Name, '/')+1] }

// A Count holds the last value of a [Counter], and a total. The total is the first value plus all
// growth. If a value is lower than the last value, the counter restarted, and the new value counts
// as growth.
type Count struct {
	Last  uint64 `json:"last"`
	Total uint64 `json:"total"`
}

// plus returns the count after reading the value n.
func (c Count) plus(n uint64) Count {
	if n < c.Last {
		return Count{n, c.Total + n}
	}
	return Count{n, c.Total + n - c.Last}
}

// Counts contains the counts of a GPU by the counter's name. Counts of 0 are omitted.
type Counts map[string]Count

// Plus returns the counts after reading the given counters. It does not change x.
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

// Continue returns the counts x after reading the last values in later. The counts in later belong to the same
// counters, but a later exporter process started them.
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

// Totals returns a sum over all parts for each metric and label set in a reading. If a part is
// missing from the reading, the sum includes the last total of this part, so that the sum does not
// fall.
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
