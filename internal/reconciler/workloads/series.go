package workloads

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// series is a gauge whose labels are made once and not at every scrape: a large
// cluster has a hundred thousand of them. Series share what they have in common.
type series struct {
	desc   *prometheus.Desc
	gauge  *dto.Gauge
	labels []*dto.LabelPair // sorted by name
}

// Desc implements [prometheus.Metric].
func (s *series) Desc() *prometheus.Desc { return s.desc }

// Write implements [prometheus.Metric].
func (s *series) Write(m *dto.Metric) error {
	m.Label, m.Gauge = s.labels, s.gauge
	return nil
}

// renderer makes series of what is in the book.
type renderer struct {
	descs [numMetrics]*prometheus.Desc
	one   *dto.Gauge // the value of every info series
	names map[string]*string
	// labels and annotations are the label names of the allow-lists.
	labels, annotations []string
}

func newRenderer(opts Options) *renderer {
	r := &renderer{
		one: &dto.Gauge{Value: new(1.0)}, names: make(map[string]*string),
		labels: labelNames("label_", opts.PodLabels), annotations: labelNames("annotation_", opts.PodAnnotations),
	}
	for i, m := range catalogue {
		labels := m.Labels
		switch metric(i) {
		case podLabels:
			labels = slices.Concat(labels, r.labels)
		case podAnnotations:
			labels = slices.Concat(labels, r.annotations)
		}
		r.descs[i] = prometheus.V2.NewDesc(m.Name, m.Help, prometheus.UnconstrainedLabels(labels), nil, prometheus.WithUnit(m.Unit))
		for j := range labels {
			r.names[labels[j]] = &labels[j]
		}
	}
	return r
}

// labelNames returns keys of labels or annotations as names of labels, in the way of
// kube-state-metrics: app.kubernetes.io/name is label_app_kubernetes_io_name.
func labelNames(prefix string, keys []string) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = prefix + strings.Map(func(c rune) rune {
			if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
				return c
			}
			return '_'
		}, k)
	}
	return names
}

func (r *renderer) label(name, value string) *dto.LabelPair {
	value = valid(value)
	return &dto.LabelPair{Name: r.names[name], Value: &value}
}

func (r *renderer) info(m metric, labels ...*dto.LabelPair) *series {
	return r.gauge(m, r.one, labels...)
}

func (r *renderer) gauge(m metric, value *dto.Gauge, labels ...*dto.LabelPair) *series {
	slices.SortFunc(labels, func(a, b *dto.LabelPair) int { return cmp.Compare(*a.Name, *b.Name) })
	return &series{r.descs[m], value, labels}
}

// levelKey tells two workloads apart.
type levelKey struct{ kind, namespace, name, uid string }

// level is the series of one workload.
type level struct {
	key    levelKey
	series *series
	of     belonging // what a pod without a controller shows of itself
}

// belonging is the labels by which a pod says whose it is.
type belonging = []*dto.LabelPair

// ownerSeries is what all pods of one controller share.
type ownerSeries struct {
	of     belonging
	levels []level
}

// owner renders the levels above the pods of one controller.
func (r *renderer) owner(l *lineage) *ownerSeries {
	root := l.root()
	s := &ownerSeries{of: r.belonging(l.levels[0], root), levels: make([]level, 0, len(l.levels))}
	for i, at := range l.levels {
		s.levels = append(s.levels, r.level(at, string(l.parent(i).uid)))
	}
	return s
}

func (r *renderer) level(at reference, parent string) level {
	k := levelKey{valid(at.kind), valid(at.namespace), valid(at.name), valid(string(at.uid))}
	return level{key: k, series: r.info(workloadInfo,
		r.label("kind", k.kind), r.label("namespace", k.namespace), r.label("name", k.name), r.label("uid", k.uid),
		r.label("parent_uid", parent),
	)}
}

func (r *renderer) belonging(direct, root reference) belonging {
	return belonging{
		r.label("owner_kind", direct.kind), r.label("owner_name", direct.name),
		r.label("workload_kind", root.kind), r.label("workload_name", root.name), r.label("workload_uid", string(root.uid)),
	}
}

// bare renders a pod without a controller: it is its own workload.
func (r *renderer) bare(p *pod) *level {
	self := reference{kind: "Pod", namespace: p.Namespace, name: p.Name, uid: p.UID}
	l := r.level(self, "")
	l.of = r.belonging(reference{}, self)
	return &l
}

// pod renders a pod that belongs to a workload.
func (r *renderer) pod(e *entry, of belonging) []prometheus.Metric {
	p := e.pod
	id := []*dto.LabelPair{r.label("namespace", p.Namespace), r.label("pod", p.Name), r.label("pod_uid", string(p.UID))}
	all := make([]prometheus.Metric, 0, 1+len(e.asks))
	all = append(all, r.info(podInfo, slices.Concat(id, []*dto.LabelPair{r.label("node", p.node)}, of)...))
	for _, a := range e.asks {
		all = append(all, r.gauge(podRequests, &dto.Gauge{Value: new(a.count)}, slices.Concat(id, []*dto.LabelPair{r.label("resource", a.resource)})...))
	}
	all = r.listed(all, podLabels, id, r.labels, p.labels)
	return r.listed(all, podAnnotations, id, r.annotations, p.annotations)
}

// listed adds the series of a pod's allow-listed labels or annotations, if it has any.
func (r *renderer) listed(all []prometheus.Metric, m metric, id []*dto.LabelPair, names, values []string) []prometheus.Metric {
	if values == nil {
		return all
	}
	labels := slices.Clone(id)
	for i, name := range names {
		labels = append(labels, r.label(name, values[i]))
	}
	return append(all, r.info(m, labels...))
}

// maxLabelBytes bounds a label value. Names end at 253 bytes, annotations do not.
const maxLabelBytes = 256

// valid returns s as a label value: valid UTF-8, and cut at a rune boundary if it is
// too long.
func valid(s string) string {
	if len(s) <= maxLabelBytes && utf8.ValidString(s) {
		return s
	}
	return cut(strings.ToValidUTF8(cut(s), "\uFFFD"))
}

func cut(s string) string {
	if len(s) <= maxLabelBytes {
		return s
	}
	end := maxLabelBytes
	for end > maxLabelBytes-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
