package workloads

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
	"github.com/gpuledger/gpuledger/internal/metric"
)

// sample is a line of the page, or an empty string if there is no sample. Each line is rendered once and not at every
// scrape, because a large cluster has a hundred thousand samples.
type sample string

// renderer creates the samples. It is used only while the book is locked.
type renderer struct {
	// labels and annotations contain the label names for the keys in the allow-lists.
	labels, annotations []string

	pairs metric.Pairs
	// If strict is set, a sample with other labels than in the catalogue causes a panic. strict is set only without
	// allow-lists, because labels from the allow-lists are not in the catalogue.
	strict bool
}

func newRenderer(opts Options) *renderer {
	return &renderer{labels: labelNames("label_", opts.PodLabels), annotations: labelNames("annotation_", opts.PodAnnotations)}
}

var (
	// capital matches the start of a word in camel case.
	illegal = regexp.MustCompile(`[^a-zA-Z0-9_]`)
	capital = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

// labelNames converts keys of labels or annotations to label names in the same way as kube-state-metrics. For example,
// app.kubernetes.io/name becomes label_app_kubernetes_io_name, and jobName becomes label_job_name.
func labelNames(prefix string, keys []string) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = prefix + strings.ToLower(capital.ReplaceAllString(illegal.ReplaceAllString(k, "_"), "${1}_${2}"))
	}
	return names
}

func (r *renderer) info(m metricID, labels ...*dto.LabelPair) sample { return r.gauge(m, 1, labels...) }

func (r *renderer) gauge(m metricID, value float64, labels ...*dto.LabelPair) sample {
	metric.Sort(labels)
	if err := catalogue[m].Check(labels); r.strict && err != nil {
		panic(err)
	}
	_, line := rendered(m, &dto.Metric{Label: labels, Gauge: &dto.Gauge{Value: &value}})
	return line
}

// rendered returns the text of a metric with one series. The result head contains the help and type lines, and line
// contains the line of the series.
func rendered(m metricID, series *dto.Metric) (head string, line sample) {
	var page bytes.Buffer
	if _, err := expfmt.MetricFamilyToText(&page, catalogue[m].NewFamily([]*dto.Metric{series})); err != nil {
		panic(err) // a buffer accepts all writes
	}
	text := page.String()
	end := strings.LastIndexByte(text[:len(text)-1], '\n') + 1 // values contain no line breaks in the text format
	return text[:end], sample(strings.Clone(text[end:]))
}

type levelKey struct{ kind, namespace, name, uid string }

type level struct {
	key    levelKey
	parent string // UID of its controller
	whole  bool   // whether the owner chain reached the root
	sample sample
	of     belonging // labels that identify the workload; set only for a pod without a controller
}

// before reports whether l is preferred to another level for the same workload. A level with a parent is preferred to a
// level without a parent. If this does not decide, a level whose chain reached the root is preferred.
func (l *level) before(other *level) bool {
	switch {
	case (l.parent != "") != (other.parent != ""):
		return l.parent != ""
	case l.whole != other.whole:
		return l.whole
	}
	return l.parent < other.parent
}

// belonging contains the workload labels of a pod's series.
type belonging = []*dto.LabelPair

// above contains the series of a controller and of all owners above it.
type above struct {
	of     belonging
	levels []level
}

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
	return level{key: k, parent: parent, whole: whole, sample: r.info(workloadInfo,
		r.pairs.New("kind", k.kind), r.pairs.New("namespace", k.namespace), r.pairs.New("name", k.name), r.pairs.New("uid", k.uid),
		r.pairs.New("parent_uid", parent),
	)}
}

func (r *renderer) belonging(direct, root reference) belonging {
	return belonging{
		r.pairs.New("owner_kind", direct.kind), r.pairs.New("owner_name", direct.name),
		r.pairs.New("workload_kind", root.kind), r.pairs.New("workload_name", root.name), r.pairs.New("workload_uid", string(root.uid)),
	}
}

// bare renders the workload of a pod that has no controller. This workload is the pod itself.
func (r *renderer) bare(p *pod) *level {
	self := reference{kind: "Pod", namespace: p.namespace, name: p.name, uid: p.uid}
	l := r.level(self, "", true)
	l.of = r.belonging(reference{}, self)
	return &l
}

// podSamples contains at most one info, labels and annotations sample for a pod.
type podSamples struct {
	info, labels, annotations sample
	requests                  []sample
}

// pod renders the series of a pod. The caller passes the queue and the labels, because they may come from the pod's
// owners.
func (r *renderer) pod(e *entry, of belonging, q queue, labels []string) *podSamples {
	p := e.pod
	id := []*dto.LabelPair{r.pairs.New("namespace", p.namespace), r.pairs.New("pod", p.name), r.pairs.New("pod_uid", string(p.uid))}
	s := &podSamples{
		info: r.info(podInfo, slices.Concat(id, of, belonging{
			r.pairs.New("node", p.node), r.pairs.New("queue", q.name), r.pairs.New("cluster_queue", q.cluster),
		})...),
		labels:      r.listed(podLabels, id, r.labels, labels),
		annotations: r.listed(podAnnotations, id, r.annotations, p.annotations),
		requests:    make([]sample, 0, len(e.amounts)),
	}
	for _, a := range e.amounts {
		s.requests = append(s.requests, r.gauge(podRequests, a.count, slices.Concat(id, belonging{r.pairs.New("resource", a.resource)})...))
	}
	return s
}

func (r *renderer) listed(m metricID, id []*dto.LabelPair, names, values []string) sample {
	if values == nil {
		return ""
	}
	labels := slices.Clone(id)
	for i, name := range names {
		labels = append(labels, r.pairs.New(name, values[i]))
	}
	return r.info(m, labels...)
}
