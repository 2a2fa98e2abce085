package collector

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// layout is what a rendering asked for, and where its series stand on the page. It is
// not changed once it is made: scrapes at the same time share it.
type layout struct {
	sets   []*labelSet
	asked  []question
	series []series
	// families are in the order of their names, and so are their series on the page.
	families []family
	counters int // how many series are counters
}

// series is a series without its value. There are thousands, so neighbours share what is
// the same in them.
type series struct {
	labels  *labelSet
	pairs   []*dto.LabelPair       // the labels by name
	created *timestamppb.Timestamp // nil if that is not known
	metric  metric
	at      int32 // the place on the page
}

func (s *series) is(m metric, since time.Time, l *labelSet) bool {
	return s.metric == m && s.labels == l && s.began(since)
}

// began reports whether a counter began at a moment, zero if that is not known.
func (s *series) began(since time.Time) bool {
	if s.created == nil || since.IsZero() {
		return s.created == nil && since.IsZero()
	}
	return s.created.Seconds == since.Unix() && int(s.created.Nanos) == since.Nanosecond()
}

// sameLabels reports whether two series have the same labels and values.
func (s *series) sameLabels(o *series) bool {
	return s.labels == o.labels && slices.Equal(catalogue[s.metric].Labels, catalogue[o.metric].Labels)
}

// family is the metric of the series from one place on the page to another.
type family struct {
	metric   metric
	from, to int
}

// layout returns the layout of what was written: the last one if nothing else was.
func (p *page) layout() *layout {
	if p.same && len(p.series) == len(p.last.series) {
		return p.last
	}
	p.differ()
	l := &layout{sets: fitted(p.sets), asked: fitted(p.asked), series: fitted(p.series)}
	known := make(pairs)
	for i := range l.series {
		switch s := &l.series[i]; {
		case s.pairs != nil:
		case i > 0 && s.sameLabels(&l.series[i-1]):
			s.pairs = l.series[i-1].pairs
		default:
			s.pairs = known.of(s)
		}
	}
	l.sort()
	return l
}

// fitted returns a list without the room of a much longer one. A page stays as it is for
// long after many processes have left.
func fitted[T any](list []T) []T {
	if cap(list) > 2*len(list) {
		return slices.Clone(list)
	}
	return list
}

// sort finds the places of the series, in the order in which a registry has them.
func (l *layout) sort() {
	order := make([]*series, len(l.series))
	for i := range l.series {
		order[i] = &l.series[i]
	}
	slices.SortStableFunc(order, func(a, b *series) int {
		if a.metric != b.metric {
			return strings.Compare(catalogue[a.metric].Name, catalogue[b.metric].Name)
		}
		return slices.CompareFunc(a.pairs, b.pairs, func(a, b *dto.LabelPair) int { return strings.Compare(*a.Value, *b.Value) })
	})
	for at, s := range order {
		s.at = int32(at)
		if catalogue[s.metric].Type == counter {
			l.counters++
		}
		if n := len(l.families); n == 0 || l.families[n-1].metric != s.metric {
			l.families = append(l.families, family{metric: s.metric, from: at})
		}
		l.families[len(l.families)-1].to = at + 1
	}
}

// sheet is a layout with room for its values.
type sheet struct {
	layout   *layout
	amounts  []float64 // the values, in the order of the layout's series
	families []*dto.MetricFamily
}

// sheet returns the page with these values, to which it holds on. What the series need
// is allocated at once: there are thousands of them.
func (l *layout) sheet(amounts []float64) *sheet {
	metrics := make([]dto.Metric, len(l.series))
	gauges, counters := make([]dto.Gauge, 0, len(l.series)-l.counters), make([]dto.Counter, 0, l.counters)
	placed := make([]*dto.Metric, len(l.series))
	for i := range l.series {
		s, m := &l.series[i], &metrics[l.series[i].at]
		m.Label, placed[s.at] = s.pairs, m
		if catalogue[s.metric].Type == counter {
			counters = counters[:len(counters)+1]
			m.Counter = &counters[len(counters)-1]
			m.Counter.Value, m.Counter.CreatedTimestamp = &amounts[i], s.created
		} else {
			gauges = gauges[:len(gauges)+1]
			m.Gauge = &gauges[len(gauges)-1]
			m.Gauge.Value = &amounts[i]
		}
	}
	sh := &sheet{layout: l, amounts: amounts, families: make([]*dto.MetricFamily, len(l.families))}
	for i, f := range l.families {
		sh.families[i] = newFamily(&catalogue[f.metric], placed[f.from:f.to:f.to])
	}
	return sh
}

func newFamily(m *Metric, metrics []*dto.Metric) *dto.MetricFamily {
	f := &dto.MetricFamily{Name: &m.Name, Help: &m.Help, Type: m.Type.ToDTO(), Metric: metrics}
	if m.Unit != "" {
		f.Unit = &m.Unit
	}
	return f
}

// pairs are labels that series share.
type pairs map[[2]string]*dto.LabelPair

// of returns the labels of a series, by name.
func (known pairs) of(s *series) []*dto.LabelPair {
	names, values := catalogue[s.metric].Labels, s.labels.values()
	l := make([]*dto.LabelPair, len(names))
	for i, name := range names {
		value := values[i]
		pair, ok := known[[2]string{name, value}]
		if !ok {
			pair = &dto.LabelPair{Name: &names[i], Value: &value}
			known[[2]string{name, value}] = pair
		}
		l[i] = pair
	}
	slices.SortFunc(l, func(a, b *dto.LabelPair) int { return cmp.Compare(*a.Name, *b.Name) })
	return l
}

// sample is a series with its value, for a registry.
type sample struct {
	desc *prometheus.Desc
	dto  *dto.Metric
}

// Desc implements [prometheus.Metric].
func (s sample) Desc() *prometheus.Desc { return s.desc }

// Write implements [prometheus.Metric].
func (s sample) Write(out *dto.Metric) error {
	out.Label, out.Gauge, out.Counter = s.dto.Label, s.dto.Gauge, s.dto.Counter
	return nil
}
