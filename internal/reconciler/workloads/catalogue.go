package workloads

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/metric"
)

const family = "Workloads of GPU pods"

// The flags that show metrics.
const (
	flagPodLabels      = "--pod-labels"
	flagPodAnnotations = "--pod-annotations"
)

// metricID indexes the catalogue.
type metricID int

const (
	podInfo metricID = iota
	podRequests
	podLabels
	podAnnotations
	workloadInfo
	walksStopped
	walksWaiting
	lookups
	podEvents

	numMetrics
)

var ofPod = []string{"namespace", "pod", "pod_uid"}

func plus(labels []string, more ...string) []string { return slices.Concat(labels, more) }

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

var catalogue = [numMetrics]metric.Metric{
	podInfo: {
		Family: family, Name: "gpuledger_pod_info", Type: gauge,
		Labels: plus(ofPod, "node", "owner_kind", "owner_name", "workload_kind", "workload_name", "workload_uid"),
		Help:   "A pod that asks for a GPU, its controller, and the workload at the root of its owners.",
	},
	podRequests: {
		Family: family, Name: "gpuledger_pod_gpu_requests", Type: gauge,
		Labels: plus(ofPod, "resource"),
		Help:   "GPUs that the pod asks for, as the scheduler counts them; a claim that pods share counts for each of them.",
	},
	podLabels: {
		Family: family, Name: "gpuledger_pod_labels", Type: gauge, Flag: flagPodLabels,
		Labels: ofPod,
		Help:   "The pod's labels that are listed in the flag, each as label_ and its name.",
	},
	podAnnotations: {
		Family: family, Name: "gpuledger_pod_annotations", Type: gauge, Flag: flagPodAnnotations,
		Labels: ofPod,
		Help:   "The pod's annotations that are listed in the flag, each as annotation_ and its name.",
	},
	workloadInfo: {
		Family: family, Name: "gpuledger_workload_info", Type: gauge,
		Labels: []string{"kind", "namespace", "name", "uid", "parent_uid"},
		Help:   "An owner of GPU pods, at any level, and its own owner.",
	},
	walksStopped: {
		Family: family, Name: "gpuledger_workload_walks_stopped", Type: gauge,
		Labels: []string{"kind", "reason"},
		Help:   "Controllers of GPU pods whose root is not known, by the kind at which the walk to it stopped.",
	},
	walksWaiting: {
		Family: family, Name: "gpuledger_workload_walks_waiting", Type: gauge,
		Help: "Controllers of GPU pods whose owners were not read yet; their pods have no series until then.",
	},
	lookups: {
		Family: family, Name: "gpuledger_workload_lookups_total", Type: counter,
		Labels: []string{"result"},
		Help:   "Look-ups of owners that no earlier one had answered.",
	},
	podEvents: {
		Family: family, Name: "gpuledger_pod_events_total", Type: counter,
		Labels: []string{"event"},
		Help:   "Events of GPU pods written to the log of events.",
	},
}

// Catalogue returns every metric of this package.
func Catalogue() []metric.Metric { return slices.Clone(catalogue[:]) }

// Labels returns every label of the catalogue's metrics.
func Labels() []metric.Label {
	return []metric.Label{
		{Name: "namespace", Help: "The pod's or workload's namespace; empty for a workload that has none."},
		{Name: "pod", Help: "The pod's name."},
		{Name: "pod_uid", Help: "The pod's UID, `uid` in kube-state-metrics."},
		{Name: "node", Help: "Name of the node; empty until the pod is scheduled."},
		{Name: "owner_kind", Help: "Kind of the pod's controller; empty if it has none."},
		{Name: "owner_name", Help: "Name of the pod's controller."},
		{Name: "workload_kind", Help: "Kind of the workload at the root of the pod's owners; `Pod` if it has no controller."},
		{Name: "workload_name", Help: "Name of that workload."},
		{Name: "workload_uid", Help: "UID of that workload, `uid` of `gpuledger_workload_info`."},
		{Name: "resource", Help: "Extended resource, or device class of a claim."},
		{Name: "kind", Help: "Kind of the workload."},
		{Name: "name", Help: "Name of the workload."},
		{Name: "uid", Help: "UID of the workload."},
		{Name: "parent_uid", Help: "UID of the workload's controller; empty if it has none or none is known."},
		{Name: "reason", Help: "Why the walk from a pod to its root stopped.", Values: reasons()},
		{Name: "result", Help: "What the look-up of an owner gave.", Values: results(), Complete: true},
		{Name: "event", Help: "What happened to the pod.", Values: eventNames(), Complete: true},
	}
}
