package collector

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/gpuledger/gpuledger/internal/metric"
)

// There are thousands of series. To save memory, neighbouring series share equal labels and timestamps.
type series struct {
	dto.Metric
	labels *labelSet
	value  float64
	metric metricID
}

// write removes the label pairs. The function label adds them again.
func (s *series) write(m metricID, v float64, created *timestamppb.Timestamp, l *labelSet) {
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

func (s *series) matches(m metricID, since time.Time, l *labelSet) bool {
	return s.metric == m && s.labels == l && s.began(since)
}

// If since is zero, began reports whether the counter has no created timestamp.
func (s *series) began(since time.Time) bool {
	created := s.GetCounter().GetCreatedTimestamp()
	if created == nil || since.IsZero() {
		return created == nil && since.IsZero()
	}
	return created.Seconds == since.Unix() && int(created.Nanos) == since.Nanosecond()
}

// compare orders series as a registry does: by metric name, then by label values.
func (s *series) compare(o *series) int {
	if s.metric != o.metric {
		return strings.Compare(catalogue[s.metric].Name, catalogue[o.metric].Name)
	}
	return slices.CompareFunc(s.Label, o.Label, func(a, b *dto.LabelPair) int { return strings.Compare(*a.Value, *b.Value) })
}

// label adds the labels to new series. It returns an error if the labels differ from the labels of the metric. Only a
// bug in this package can cause this error.
func label(all *list[series]) (err error) {
	var pairs metric.Pairs
	var before *series
	for i := range all.len {
		s := all.at(i)
		if s.Label == nil {
			if before != nil && s.labels == before.labels {
				s.Label = before.Label
			} else {
				s.Label = make([]*dto.LabelPair, 0, len(catalogue[s.metric].Labels))
				for name, value := range s.labels.all() {
					s.Label = append(s.Label, pairs.Shared(name, value))
				}
				metric.Sort(s.Label)
			}
			err = cmp.Or(err, catalogue[s.metric].Check(s.Label))
		}
		before = s
	}
	return err
}

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
