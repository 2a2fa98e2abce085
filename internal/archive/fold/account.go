package fold

import "slices"

// Label is a label of a series.
type Label struct{ Name, Value string }

// Labels contains the labels of a series, including __name__, in any order.
type Labels []Label

// Get returns the value of a label. It returns an empty string if the label is missing.
func (l Labels) Get(name string) string {
	for i := range l {
		if l[i].Name == name {
			return l[i].Value
		}
	}
	return ""
}

// Metric returns the name of the metric.
func (l Labels) Metric() string { return l.Get("__name__") }

func (l Labels) asMap() map[string]string {
	all := make(map[string]string, len(l))
	for _, label := range l {
		all[label.Name] = label.Value
	}
	return all
}

type gpuKey struct{ node, uuid string }

func gpuOf(l Labels) gpuKey { return gpuKey{l.Get("node"), l.Get("UUID")} }

// Account identifies a counter of a GPU by its node, its UUID and some labels. It omits the serial number and the
// chassis, because they may become known only after the first sample.
type Account struct {
	gpuKey
	metric string
	labels [4]string // values of the labels in counter.by
}

func (c *counter) account(l Labels) Account {
	a := Account{gpuKey: gpuOf(l), metric: c.name}
	for i, name := range c.by {
		a.labels[i] = l.Get(name)
	}
	return a
}

// AccountOf returns the account of a series. It returns false if the series is neither a counter nor a created
// timestamp.
func AccountOf(l Labels) (Account, bool) {
	c, ok := opened[l.Metric()]
	if !ok {
		return Account{}, false
	}
	return c.account(l), true
}

// Labels returns the labels that identify the account.
func (a Account) Labels() Labels {
	found := Labels{{"__name__", a.metric}, {"node", a.node}, {"UUID", a.uuid}}
	for i, name := range opened[a.metric].by {
		found = append(found, Label{name, a.labels[i]})
	}
	return found
}

// Last returns the last sample of a series. It returns false if the series has no samples.
func (s Series) Last() (Sample, bool) {
	if len(s.Samples) == 0 {
		return Sample{}, false
	}
	return s.Samples[len(s.Samples)-1], true
}

// Openings contains the last sample of each counter at or before the start of an hour.
type Openings map[Account]Sample

// Add adds the last sample of a series, unless it contains a later sample of the same account.
func (o Openings) Add(s Series) {
	a, ok := AccountOf(s.Labels)
	last, sampled := s.Last()
	if !ok || !sampled {
		return
	}
	if known, ok := o[a]; !ok || known.Time < last.Time {
		o[a] = last
	}
}

// timeline returns the values of a series. The times of successive calls must be in ascending order.
type timeline struct {
	value float64
	known bool
	next  []Sample // samples after the previous call's time
}

// The result is the value of the last sample at or before a time. It is false if there is no such sample.
func (t *timeline) at(moment int64) (float64, bool) {
	i := slices.IndexFunc(t.next, func(s Sample) bool { return s.Time > moment })
	if i < 0 {
		i = len(t.next)
	}
	if i > 0 {
		t.value, t.known, t.next = t.next[i-1].Value, true, t.next[i:]
	}
	return t.value, t.known
}
