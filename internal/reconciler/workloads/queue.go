package workloads

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// queue is a queue of a batch scheduler or of Kueue. It is zero for a pod without a queue.
type queue struct {
	name string
	// cluster is Kueue's ClusterQueue, or empty if it is unknown.
	cluster string
	// local is set for a LocalQueue of Kueue in the pod's namespace.
	local bool
}

// or returns q, or other if q has no name. If q has a ClusterQueue, the result always has this ClusterQueue.
func (q queue) or(other queue) queue {
	if q.name == "" {
		other.cluster = cmp.Or(q.cluster, other.cluster)
		return other
	}
	return q
}

// These are Kueue's label keys. With the first label, a user selects a queue. Kueue 0.17 and newer versions add the
// other labels to admitted pods (pkg/constants/constants.go, pkg/controller/constants/constants.go).
const (
	kueueQueue        = "kueue.x-k8s.io/queue-name"
	kueueLocalQueue   = "kueue.x-k8s.io/local-queue-name"
	kueueClusterQueue = "kueue.x-k8s.io/cluster-queue-name"
)

// These are Volcano's keys. Volcano copies volcano.sh/queue-name from a Volcano job to the labels of the job's pods
// (pkg/controllers/job/job_controller_util.go). Other pods can have the annotation scheduling.volcano.sh/queue-name.
const (
	volcanoJobQueue = "volcano.sh/queue-name"
	volcanoQueue    = "scheduling.volcano.sh/queue-name"
)

// These are YuniKorn's keys for a queue (pkg/common/constants/constants.go). The short label is used only for pods that
// YuniKorn schedules, because other programs also use this label.
const (
	yunikornQueue      = "yunikorn.apache.org/queue"
	yunikornShortQueue = "queue"
	yunikornScheduler  = "yunikorn"
)

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

// queueOfOwner returns the queue in an owner's labels. The owner's labels are needed, because Kueue admits the owner of
// a pod. Kueue copies the queue to the pod only if the feature AssignQueueLabelsForPods is enabled.
func queueOfOwner(labels map[string]string) queue { return newQueue(labels[kueueQueue], "", true) }

func newQueue(name, cluster string, local bool) queue {
	valid := func(name string) string { return shared(strings.Clone(labelvalue.Valid(name))) }
	return queue{name: valid(name), cluster: valid(cluster), local: local && name != ""}
}
