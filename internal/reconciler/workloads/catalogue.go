package workloads

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/metric"
)

const family = "Workloads of GPU pods"

const (
	flagPodLabels      = "--pod-labels"
	flagPodAnnotations = "--pod-annotations"
)

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
		Labels: plus(ofPod, "node", "owner_kind", "owner_name", "workload_kind", "workload_name", "workload_uid", "queue", "cluster_queue"),
		Help:   "Pod that requests a GPU, with its controller, the workload at the root of its owner chain, and its queue.",
	},
	podRequests: {
		Family: family, Name: "gpuledger_pod_gpu_requests", Type: gauge,
		Labels: plus(ofPod, "resource"),
		Help:   "GPUs that the pod requests, as the scheduler counts them; a claim that pods share is counted for each of these pods.",
	},
	podLabels: {
		Family: family, Name: "gpuledger_pod_labels", Type: gauge, Flag: flagPodLabels,
		Labels: ofPod,
		Help:   "Pod labels that --pod-labels lists; the pod label NAME becomes the label label_NAME. With --pod-labels-of-owners, missing labels are taken from the nearest owner.",
	},
	podAnnotations: {
		Family: family, Name: "gpuledger_pod_annotations", Type: gauge, Flag: flagPodAnnotations,
		Labels: ofPod,
		Help:   "Pod annotations that --pod-annotations lists; the annotation NAME becomes the label annotation_NAME.",
	},
	workloadInfo: {
		Family: family, Name: "gpuledger_workload_info", Type: gauge,
		Labels: []string{"kind", "namespace", "name", "uid", "parent_uid"},
		Help:   "Owner of GPU pods at any level of the owner chain, with the owner at the next level.",
	},
	walksStopped: {
		Family: family, Name: "gpuledger_workload_walks_stopped", Type: gauge,
		Labels: []string{"kind", "reason"},
		Help:   "Controllers of GPU pods whose workload is unknown, by the kind of the object at which the owner chain ends.",
	},
	walksWaiting: {
		Family: family, Name: "gpuledger_workload_walks_waiting", Type: gauge,
		Help: "Controllers of GPU pods whose owners have not been read yet. The pods have no series until the owners are read.",
	},
	lookups: {
		Family: family, Name: "gpuledger_workload_lookups_total", Type: counter,
		Labels: []string{"result"},
		Help:   "Requests for owners that were not in the cache.",
	},
	podEvents: {
		Family: family, Name: "gpuledger_pod_events_total", Type: counter,
		Labels: []string{"event"},
		Help:   "Events of GPU pods and their workloads that were written to the event log.",
	},
}

// Catalogue returns every metric of this package.
func Catalogue() []metric.Metric { return slices.Clone(catalogue[:]) }

// Labels returns every label of the catalogue's metrics.
func Labels() []metric.Label {
	return []metric.Label{
		{Name: "namespace", Help: "Namespace of the pod or workload; empty for a workload without a namespace."},
		{Name: "pod", Help: "Name of the pod."},
		{Name: "pod_uid", Help: "UID of the pod; kube-state-metrics names this label `uid`."},
		{Name: "node", Help: "Name of the node; empty until the pod is scheduled."},
		{Name: "owner_kind", Help: "Kind of the pod's controller; empty without a controller."},
		{Name: "owner_name", Help: "Name of the pod's controller."},
		{Name: "workload_kind", Help: "Kind of the workload at the root of the owner chain; `Pod` without a controller."},
		{Name: "workload_name", Help: "Name of this root workload."},
		{Name: "workload_uid", Help: "UID of this root workload, the same as `uid` of `gpuledger_workload_info`."},
		{Name: "queue", Help: "Queue of the pod in Kueue (a LocalQueue of the namespace), Volcano or YuniKorn; empty without a queue."},
		{Name: "cluster_queue", Help: "ClusterQueue of the pod in Kueue; empty in other schedulers."},
		{Name: "resource", Help: "Extended resource, or device class of a claim."},
		{Name: "kind", Help: "Kind of the workload."},
		{Name: "name", Help: "Name of the workload."},
		{Name: "uid", Help: "UID of the workload."},
		{Name: "parent_uid", Help: "UID of the workload's controller; empty if the workload has no controller or if the controller is unknown."},
		{Name: "reason", Help: "Reason why the owner chain ends before the root.", Values: reasons()},
		{Name: "result", Help: "Result of the request.", Values: results(), Complete: true},
		{Name: "event", Help: "Kind of event.", Values: eventNames(), Complete: true},
	}
}
