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
	dto.Metric
	labels *labelSet
	value  float64
	metric metric
}

// write writes a series over another, whose room it takes. It has no labels by name yet.
func (s *series) write(m metric, v float64, created *timestamppb.Timestamp, l *labelSet) {
	s.metric, s.value, s.labels, s.Label = m, v, l, nil
	if catalogue[m].Type != counter {
		s.Counter = nil
		if s.Gauge == nil {
			s.Gauge = new(dto.Gauge)
		}
		s.Gauge.Value = &s.value
		return
	}
	s.Gauge = nil
	if s.Counter == nil {
		s.Counter = new(dto.Counter)
	}
	s.Counter.Value, s.Counter.CreatedTimestamp = &s.value, created
}

func (s *series) is(m metric, since time.Time, l *labelSet) bool {
	return s.metric == m && s.labels == l && s.began(since)
}

// began reports whether a counter began at a moment, zero if that is not known.
func (s *series) began(since time.Time) bool {
	created := s.GetCounter().GetCreatedTimestamp()
	if created == nil || since.IsZero() {
		return created == nil && since.IsZero()
	}
	return created.Seconds == since.Unix() && int(created.Nanos) == since.Nanosecond()
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
	return slices.CompareFunc(s.Label, o.Label, func(a, b *dto.LabelPair) int { return strings.Compare(*a.Value, *b.Value) })
}

// label gives the series that have none their labels by name.
func label(all *list[series]) {
	known := pairs{known: make(map[[2]string]*dto.LabelPair)}
	var before *series
	for i := range all.len {
		s := all.at(i)
		switch {
		case s.Label != nil:
		case before != nil && s.sameLabels(before):
			s.Label = before.Label
		default:
			s.Label = known.of(s)
		}
		before = s
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
	out.Label, out.Gauge, out.Counter = s.Label, s.Gauge, s.Counter
	return nil
}
