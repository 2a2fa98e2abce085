package workloads

import (
	"regexp"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
	"github.com/gpuledger/gpuledger/internal/metric"
)

// renderer creates the samples of the book. A sample is created once and not at every scrape,
// because a large cluster has a hundred thousand; samples share equal parts for the same
// reason. It is used under the book's lock.
type renderer struct {
	// labels and annotations are the label names of the allow-lists.
	labels, annotations []string

	pairs  metric.Pairs
	values map[float64]*dto.Gauge
}

func newRenderer(opts Options) *renderer {
	return &renderer{
		labels: labelNames("label_", opts.PodLabels), annotations: labelNames("annotation_", opts.PodAnnotations),
		values: make(map[float64]*dto.Gauge),
	}
}

var (
	// illegal matches characters that label names cannot have, capital the start of a word in
	// camel case.
	illegal = regexp.MustCompile(`[^a-zA-Z0-9_]`)
	capital = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

// labelNames converts keys of labels or annotations to label names like kube-state-metrics:
// app.kubernetes.io/name is label_app_kubernetes_io_name, and jobName label_job_name.
func labelNames(prefix string, keys []string) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = prefix + strings.ToLower(capital.ReplaceAllString(illegal.ReplaceAllString(k, "_"), "${1}_${2}"))
	}
	return names
}

func (r *renderer) info(labels ...*dto.LabelPair) *dto.Metric { return r.gauge(1, labels...) }

func (r *renderer) gauge(value float64, labels ...*dto.LabelPair) *dto.Metric {
	metric.Sort(labels)
	g, ok := r.values[value]
	if !ok {
		g = &dto.Gauge{Value: &value}
		r.values[value] = g
	}
	return &dto.Metric{Label: labels, Gauge: g}
}

// levelKey identifies a workload.
type levelKey struct{ kind, namespace, name, uid string }

// level is the series of one workload.
type level struct {
	key    levelKey
	parent string // UID of its controller
	whole  bool   // whether its chain reached the root
	sample *dto.Metric
	of     belonging // the labels of a pod without a controller
}

// before reports whether l is preferred over another level of the same workload: first with a
// parent, then with a chain that reached the root.
func (l *level) before(other *level) bool {
	switch {
	case (l.parent != "") != (other.parent != ""):
		return l.parent != ""
	case l.whole != other.whole:
		return l.whole
	}
	return l.parent < other.parent
}

// belonging contains the labels that identify the workload of a pod.
type belonging = []*dto.LabelPair

// above contains the series above all pods of one controller.
type above struct {
	of     belonging
	levels []level
}

// owner renders the levels above the pods of one controller.
func (r *renderer) owner(l *ownerChain) *above {
	root := l.root()
	s := &above{of: r.belonging(l.levels[0], root), levels: make([]level, 0, len(l.levels))}
	for i, at := range l.levels {
		s.levels = append(s.levels, r.level(at, string(l.parent(i).uid), l.stopped == ""))
	}
	return s
}

func (r *renderer) level(at reference, parent string, whole bool) level {
	k := levelKey{labelvalue.Valid(at.kind), labelvalue.Valid(at.namespace), labelvalue.Valid(at.name), labelvalue.Valid(string(at.uid))}
	return level{key: k, parent: parent, whole: whole, sample: r.info(
		r.pairs.Shared("kind", k.kind), r.pairs.Shared("namespace", k.namespace), r.pairs.New("name", k.name), r.pairs.New("uid", k.uid),
		r.pairs.New("parent_uid", parent),
	)}
}

func (r *renderer) belonging(direct, root reference) belonging {
	return belonging{
		r.pairs.Shared("owner_kind", direct.kind), r.pairs.New("owner_name", direct.name),
		r.pairs.Shared("workload_kind", root.kind), r.pairs.New("workload_name", root.name), r.pairs.New("workload_uid", string(root.uid)),
	}
}

// bare renders a pod without a controller, which is its own workload.
func (r *renderer) bare(p *pod) *level {
	self := reference{kind: "Pod", namespace: p.namespace, name: p.name, uid: p.uid}
	l := r.level(self, "", true)
	l.of = r.belonging(reference{}, self)
	return &l
}

// podSamples has at most one sample of each metric for a pod.
type podSamples struct {
	info, labels, annotations *dto.Metric
	requests                  []*dto.Metric
}

func (r *renderer) pod(e *entry, of belonging, q queue) *podSamples {
	p := e.pod
	id := []*dto.LabelPair{r.pairs.Shared("namespace", p.namespace), r.pairs.New("pod", p.name), r.pairs.New("pod_uid", string(p.uid))}
	s := &podSamples{
		info: r.info(slices.Concat(id, of, belonging{
			r.pairs.Shared("node", p.node), r.pairs.Shared("queue", q.name), r.pairs.Shared("cluster_queue", q.cluster),
		})...),
		labels:      r.listed(id, r.labels, p.labels),
		annotations: r.listed(id, r.annotations, p.annotations),
		requests:    make([]*dto.Metric, 0, len(e.amounts)),
	}
	for _, a := range e.amounts {
		s.requests = append(s.requests, r.gauge(a.count, slices.Concat(id, belonging{r.pairs.Shared("resource", a.resource)})...))
	}
	return s
}

// listed renders a pod's allow-listed labels or annotations, nil if there are none.
func (r *renderer) listed(id []*dto.LabelPair, names, values []string) *dto.Metric {
	if values == nil {
		return nil
	}
	labels := slices.Clone(id)
	for i, name := range names {
		labels = append(labels, r.pairs.New(name, values[i]))
	}
	return r.info(labels...)
}
