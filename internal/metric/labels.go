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

// maxShared bounds the pairs that are kept to be shared: nodes come and go, and pods
// can name any kind.
const maxShared = 20_000

// Pairs makes label pairs. Large pages have the same pairs many times; the shared ones are in
// memory once. The zero value is ready. It is used by one goroutine at a time.
type Pairs struct {
	names  map[string]*string
	shared map[[2]string]*dto.LabelPair
}

// Own returns a pair that no other series has. Its value is made valid: only so no value can
// break a page.
func (p *Pairs) Own(name, value string) *dto.LabelPair {
	return &dto.LabelPair{Name: p.name(name), Value: new(labelvalue.Valid(value))}
}

// Shared returns a pair that other series may have too.
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

// name returns the one copy of a label's name.
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

// Sort brings the labels of a series into the order of a page, which is by name.
func Sort(labels []*dto.LabelPair) {
	slices.SortFunc(labels, func(a, b *dto.LabelPair) int { return cmp.Compare(*a.Name, *b.Name) })
}

// Check returns an error unless sorted labels are those of the metric.
func (m *Metric) Check(labels []*dto.LabelPair) error {
	names := slices.Sorted(slices.Values(m.Labels))
	if slices.EqualFunc(names, labels, func(name string, l *dto.LabelPair) bool { return name == *l.Name }) {
		return nil
	}
	var got []string
	for _, l := range labels {
		got = append(got, *l.Name)
	}
	return fmt.Errorf("%s has the labels %s, and must have %s", m.Name, strings.Join(got, ", "), strings.Join(names, ", "))
}

// NewFamily returns the series of a metric as a page has them.
func (m *Metric) NewFamily(series []*dto.Metric) *dto.MetricFamily {
	f := &dto.MetricFamily{Name: &m.Name, Help: &m.Help, Type: m.Type.ToDTO(), Metric: series}
	if m.Unit != "" {
		f.Unit = &m.Unit
	}
	return f
}

// NewDesc returns what a registry knows of the metric.
func (m *Metric) NewDesc() *prometheus.Desc {
	return prometheus.V2.NewDesc(m.Name, m.Help, prometheus.UnconstrainedLabels(m.Labels), nil, prometheus.WithUnit(m.Unit))
}
