package collector

import (
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// sheet is a page as client_golang has it. It reads the values of the series where they
// stand, and is laid out anew when the page has other series. The room is used again:
// there are thousands of them.
type sheet struct {
	families []*dto.MetricFamily
	metrics  []*dto.Metric // family by family
	counters blocks[counterMetric]
	gauges   blocks[gaugeMetric]
}

type counterMetric struct {
	dto.Metric
	counter dto.Counter
}

type gaugeMetric struct {
	dto.Metric
	gauge dto.Gauge
}

// lay lays out the series, which stay where they are until the next call.
func (s *sheet) lay(all []series) {
	order := make([]*series, len(all))
	for i := range all {
		order[i] = &all[i]
	}
	slices.SortStableFunc(order, (*series).compare)
	s.room(len(all))
	counters, gauges := 0, 0
	for i, x := range order {
		if catalogue[x.metric].Type == counter {
			s.metrics = append(s.metrics, s.counters.at(counters).show(x))
			counters++
		} else {
			s.metrics = append(s.metrics, s.gauges.at(gauges).show(x))
			gauges++
		}
		if i == 0 || order[i-1].metric != x.metric {
			s.families = append(s.families, newFamily(&catalogue[x.metric]))
		}
		f := s.families[len(s.families)-1]
		f.Metric = s.metrics[i-len(f.Metric) : i+1]
	}
	s.counters.end(counters)
	s.gauges.end(gauges)
}

// room empties the sheet, for so many metrics.
func (s *sheet) room(n int) {
	clear(s.families)
	s.families = s.families[:0]
	if n > cap(s.metrics) || cap(s.metrics) > 2*n {
		s.metrics = make([]*dto.Metric, 0, n)
	}
	s.metrics = s.metrics[:0]
}

func (m *counterMetric) show(s *series) *dto.Metric {
	m.Label, m.Counter = s.pairs, &m.counter
	m.counter.Value, m.counter.CreatedTimestamp = &s.value, s.created
	return &m.Metric
}

func (m *gaugeMetric) show(s *series) *dto.Metric {
	m.Label, m.Gauge = s.pairs, &m.gauge
	m.gauge.Value = &s.value
	return &m.Metric
}

func newFamily(m *Metric) *dto.MetricFamily {
	f := &dto.MetricFamily{Name: &m.Name, Help: &m.Help, Type: m.Type.ToDTO()}
	if m.Unit != "" {
		f.Unit = &m.Unit
	}
	return f
}
