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

// series is a series with its value. There are thousands, so neighbours share what is the
// same in them.
type series struct {
	labels  *labelSet
	pairs   []*dto.LabelPair       // the labels by name
	created *timestamppb.Timestamp // nil if that is not known
	value   float64
	metric  metric
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

// compare orders series as a registry does: by the names of their families, then by the
// values of their labels.
func (s *series) compare(o *series) int {
	if s.metric != o.metric {
		return strings.Compare(catalogue[s.metric].Name, catalogue[o.metric].Name)
	}
	return slices.CompareFunc(s.pairs, o.pairs, func(a, b *dto.LabelPair) int { return strings.Compare(*a.Value, *b.Value) })
}

// label gives the series that have none their labels by name.
func label(all []series) {
	known := pairs{known: make(map[[2]string]*dto.LabelPair)}
	for i := range all {
		switch s := &all[i]; {
		case s.pairs != nil:
		case i > 0 && s.sameLabels(&all[i-1]):
			s.pairs = all[i-1].pairs
		default:
			s.pairs = known.of(s)
		}
	}
}

// pairs are labels that series share.
type pairs struct {
	known  map[[2]string]*dto.LabelPair
	values []string // of the last series
}

// of returns the labels of a series, by name.
func (p *pairs) of(s *series) []*dto.LabelPair {
	names := catalogue[s.metric].Labels
	p.values = s.labels.values(p.values[:0])
	l := make([]*dto.LabelPair, len(names))
	for i := range names {
		l[i] = p.pair(&names[i], p.values[i])
	}
	slices.SortFunc(l, func(a, b *dto.LabelPair) int { return cmp.Compare(*a.Name, *b.Name) })
	return l
}

func (p *pairs) pair(name *string, value string) *dto.LabelPair {
	key := [2]string{*name, value}
	known, ok := p.known[key]
	if !ok {
		known = &dto.LabelPair{Name: name, Value: new(value)}
		p.known[key] = known
	}
	return known
}

// sample is a series for a registry.
type sample struct {
	desc *prometheus.Desc
	*series
}

// Desc implements [prometheus.Metric].
func (s sample) Desc() *prometheus.Desc { return s.desc }

// Write implements [prometheus.Metric].
func (s sample) Write(out *dto.Metric) error {
	out.Label = s.pairs
	if catalogue[s.metric].Type == counter {
		out.Counter = &dto.Counter{Value: &s.value, CreatedTimestamp: s.created}
	} else {
		out.Gauge = &dto.Gauge{Value: &s.value}
	}
	return nil
}
