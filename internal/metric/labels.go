package metric

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// maxShared limits the number of shared pairs in the cache. Without a limit, the cache would grow with each new node
// and owner.
const maxShared = 20_000

// Pairs creates label pairs. A large page contains many equal pairs, so Pairs stores each of them only once. The zero
// value is ready for use. Only one goroutine at a time may use it.
type Pairs struct {
	names  map[string]*string
	shared map[[2]string]*dto.LabelPair
}

// New returns a new pair. It makes an invalid label value valid.
func (p *Pairs) New(name, value string) *dto.LabelPair {
	return &dto.LabelPair{Name: p.name(name), Value: new(labelvalue.Valid(value))}
}

// Shared returns a pair that several series may share. Like New, it makes the value valid.
func (p *Pairs) Shared(name, value string) *dto.LabelPair {
	key := [2]string{name, labelvalue.Valid(value)}
	if known, ok := p.shared[key]; ok {
		return known
	}
	if p.shared == nil || len(p.shared) >= maxShared {
		p.shared = make(map[[2]string]*dto.LabelPair)
	}
	pair := &dto.LabelPair{Name: p.name(name), Value: &key[1]}
	p.shared[key] = pair
	return pair
}

func (p *Pairs) name(name string) *string {
	known, ok := p.names[name]
	if !ok {
		if p.names == nil {
			p.names = make(map[string]*string)
		}
		known = &name
		p.names[name] = known
	}
	return known
}

// Sort sorts the labels of a series by name, as on a metrics page.
func Sort(labels []*dto.LabelPair) {
	slices.SortFunc(labels, func(a, b *dto.LabelPair) int { return cmp.Compare(*a.Name, *b.Name) })
}

// Check returns an error if the given labels, sorted by name, differ from the labels of the metric.
func (m *Metric) Check(labels []*dto.LabelPair) error {
	names := slices.Sorted(slices.Values(m.Labels))
	if slices.EqualFunc(names, labels, func(name string, l *dto.LabelPair) bool { return name == *l.Name }) {
		return nil
	}
	var got []string
	for _, l := range labels {
		got = append(got, *l.Name)
	}
	return fmt.Errorf("%s has the labels %s, but must have %s", m.Name, strings.Join(got, ", "), strings.Join(names, ", "))
}

// Constant returns a series of the metric for a registry. labels alternates between names and values. If the names
// differ from the labels of the metric, the scrape fails. MustHave finds this mistake when the program starts.
func (m *Metric) Constant(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	values, err := m.values(labels)
	if err != nil {
		return prometheus.NewInvalidMetric(d, err)
	}
	series, err := prometheus.NewConstMetric(d, m.Type, value, values...)
	if err != nil {
		return prometheus.NewInvalidMetric(d, err)
	}
	return series
}

// MustHave panics if the given labels differ from the labels of the metric. labels alternates between names and values.
func (m *Metric) MustHave(labels ...string) {
	if _, err := m.values(labels); err != nil {
		panic(err)
	}
}

func (m *Metric) values(labels []string) ([]string, error) {
	values, found := make([]string, len(m.Labels)), 0
	for i, name := range m.Labels {
		for k := 0; k < len(labels); k += 2 {
			if labels[k] == name {
				values[i] = labels[k+1]
				found++
				break
			}
		}
	}
	if found != len(m.Labels) || len(labels) != 2*found {
		return nil, fmt.Errorf("%s has the labels and values %q, but must have the labels %s", m.Name, labels, strings.Join(m.Labels, ", "))
	}
	return values, nil
}

// NewFamily returns the family of a metric with the given series.
func (m *Metric) NewFamily(series []*dto.Metric) *dto.MetricFamily {
	f := &dto.MetricFamily{Name: &m.Name, Help: &m.Help, Type: m.Type.ToDTO(), Metric: series}
	if m.Unit != "" {
		f.Unit = &m.Unit
	}
	return f
}

// NewDesc returns the descriptor of the metric for a registry.
func (m *Metric) NewDesc() *prometheus.Desc {
	return prometheus.V2.NewDesc(m.Name, m.Help, prometheus.UnconstrainedLabels(m.Labels), nil, prometheus.WithUnit(m.Unit))
}
