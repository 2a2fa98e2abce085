package gpu

import (
	"maps"
	"slices"
	"strings"
)

// A Counter counts the errors in one part of a GPU, such as a link. It may restart when the part
// restarts or when the driver is loaded.
type Counter struct {
	// Metric and Labels identify the exported sum to which Count is added. The sum covers all parts of the GPU.
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

// sum returns the name without the part at its end. Counters with the same result are added up.
func (c *Counter) sum() string { return c.Name[:strings.LastIndexByte(c.Name, '/')+1] }

// A Count contains the last value of a [Counter] and the total of its increases, including its first value. A value
// lower than Last means that the counter restarted at 0, so the whole new value is added to Total.
type Count struct {
	Last  uint64 `json:"last"`
	Total uint64 `json:"total"`
}

func (c Count) plus(n uint64) Count {
	if n < c.Last {
		return Count{n, c.Total + n}
	}
	return Count{n, c.Total + n - c.Last}
}

// Counts contains a [Count] for each counter of a GPU, by [Counter.Name]. Counters that never exceeded 0 are missing.
type Counts map[string]Count

// Plus returns the counts, updated with the counters of a new reading. It does not change x itself.
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

// Continue returns the saved counts x of an earlier exporter process, updated with the last values of this process. It
// is needed if this process reads the counters before it reads the saved counts.
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

// Totals returns the sum over all parts for each metric and label set in a reading. A part that is missing from the
// reading keeps its last total, so that the sum does not decrease.
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
