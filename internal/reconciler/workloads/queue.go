package workloads

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// queue describes the queue in which a pod is, in a scheduler or in Kueue. It is zero if the pod is in no queue.
type queue struct {
	name string
	// cluster is Kueue's ClusterQueue, or empty if it is unknown.
	cluster string
	// local is set if the queue is one of Kueue's LocalQueues, in the namespace of the pod.
	local bool
}

// or returns q if q has a name. Otherwise, or returns the other queue. If the ClusterQueue of q is known, the
// returned queue gets this ClusterQueue.
func (q queue) or(other queue) queue {
	if q.name == "" {
		other.cluster = cmp.Or(q.cluster, other.cluster)
		return other
	}
	return q
}

// These are Kueue's labels: the label with which a user selects a queue, and the labels that Kueue 0.17 and newer adds
// to pods when it admits them (pkg/constants/constants.go, pkg/controller/constants/constants.go).
const (
	kueueQueue        = "kueue.x-k8s.io/queue-name"
	kueueLocalQueue   = "kueue.x-k8s.io/local-queue-name"
	kueueClusterQueue = "kueue.x-k8s.io/cluster-queue-name"
)

// These are Volcano's keys: the key for the queue of a Volcano job, which the job's controller adds to the pods
// (pkg/controllers/job/job_controller_util.go), and the key with which other pods select a queue.
const (
	volcanoJobQueue = "volcano.sh/queue-name"
	volcanoQueue    = "scheduling.volcano.sh/queue-name"
)

// These are YuniKorn's keys (pkg/common/constants/constants.go). The short label is used only for pods that YuniKorn
// schedules, because other programs also use this label.
const (
	yunikornQueue      = "yunikorn.apache.org/queue"
	yunikornShortQueue = "queue"
	yunikornScheduler  = "yunikorn"
)

// queueOfPod returns the queue that a pod's metadata names.
func queueOfPod(p *corev1.Pod) queue {
	labels, annotations := p.Labels, p.Annotations
	if name := cmp.Or(labels[kueueLocalQueue], labels[kueueQueue]); name != "" {
		return newQueue(name, labels[kueueClusterQueue], true)
	}
	short := ""
	if p.Spec.SchedulerName == yunikornScheduler {
		short = labels[yunikornShortQueue]
	}
	name := cmp.Or(
		labels[volcanoJobQueue], annotations[volcanoQueue],
		// This is the order of GetQueueNameFromPod in YuniKorn's pkg/common/utils/utils.go
		labels[yunikornQueue], annotations[yunikornQueue], short,
	)
	return newQueue(name, labels[kueueClusterQueue], false)
}

// queueOfOwner returns the queue that the metadata of a pod's owner names. The owner is read because Kueue admits
// owners. Kueue adds labels to pods only if the feature AssignQueueLabelsForPods is enabled.
func queueOfOwner(labels map[string]string) queue { return newQueue(labels[kueueQueue], "", true) }

// newQueue returns a queue without invalid names. A queue without a name is not local.
func newQueue(name, cluster string, local bool) queue {
	valid := func(name string) string { return shared(strings.Clone(labelvalue.Valid(name))) }
	return queue{name: valid(name), cluster: valid(cluster), local: local && name != ""}
}
