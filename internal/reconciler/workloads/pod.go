package workloads

import (
	"cmp"
	"hash/fnv"
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// pod contains the parts of a pod that are kept in memory. It replaces the pod in the informer's store and is
// immutable.
type pod struct {
	namespace, name string
	uid             types.UID
	version         string // resource version
	generation      int64
	created         time.Time

	node        string
	owner       reference // controller of the pod; zero if there is none
	amounts     []amount
	claims      []string // names of the pod's resource claims, without duplicates
	labels      []string // values in the order of the allow-list
	annotations []string
	queue       queue // queue in the pod's own labels and annotations
	// finished is the time when the last container ended, or zero if a container may still run.
	finished time.Time

	// status and full are used only for events. full is kept until the snapshot has been written.
	status *status
	full   *corev1.Pod
}

// key identifies the series of a pod. It includes the name, so that an invalid duplicate UID cannot merge pods.
type key struct{ namespace, name, uid string }

func (p *pod) key() key { return key{p.namespace, p.name, string(p.uid)} }

// GetObjectMeta implements [metav1.ObjectMetaAccessor], with which informers identify objects. The result is not
// stored, because it would double the size of a pod.
func (p *pod) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: p.namespace, Name: p.name, UID: p.uid, ResourceVersion: p.version}
}

// Keep reduces a pod to the parts that are kept in memory. It returns false if the pod has neither a GPU request nor a
// claim. Only one goroutine at a time may call Keep, but Run may run at the same time.
func (w *Workloads) Keep(from *corev1.Pod) (kept metav1.ObjectMetaAccessor, ok bool) {
	amounts, claims := w.requests(from), claimNames(from)
	if len(amounts) == 0 && len(claims) == 0 {
		return nil, false
	}
	p := &pod{
		namespace: shared(from.Namespace), name: from.Name, uid: from.UID,
		version: from.ResourceVersion, generation: from.Generation, created: from.CreationTimestamp.Time,
		node:        shared(from.Spec.NodeName),
		owner:       ownerOf(from),
		amounts:     amounts,
		claims:      claims,
		labels:      allowed(w.opts.PodLabels, from.Labels),
		annotations: allowed(w.opts.PodAnnotations, from.Annotations),
		queue:       queueOfPod(from),
		finished:    finished(from),
	}
	if w.opts.follows() {
		p.status = w.keepStatus(from)
	}
	if w.opts.Snapshots != snapshotsNone && (w.listed.Load() || time.Since(p.changed()) < recently) {
		p.full = from // all pods of a list would take too much memory, so only recently changed pods are stored completely
	}
	return p, true
}

func ownerOf(p *corev1.Pod) reference {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil {
		return reference{}
	}
	return refer(owner, p.Namespace)
}

// finished returns the time when a pod succeeded or failed, or zero if it may still run. A pod that the node rejected
// never ran a container. For such a pod, finished uses the time in the conditions, if there is one.
func finished(p *corev1.Pod) time.Time {
	if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
		return time.Time{}
	}
	last := p.CreationTimestamp.Time
	for _, c := range p.Status.Conditions {
		last = later(last, c.LastTransitionTime.Time)
	}
	for s := range statuses(p) {
		if t := s.State.Terminated; t != nil {
			last = later(last, t.FinishedAt.Time)
		}
	}
	if last.IsZero() {
		return time.Unix(0, 0) // the time is unknown, so the pod counts as finished long ago
	}
	return last
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func statuses(p *corev1.Pod) iter.Seq[*corev1.ContainerStatus] {
	return func(yield func(*corev1.ContainerStatus) bool) {
		for _, list := range [][]corev1.ContainerStatus{
			p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses,
		} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// allowed returns the values for the listed keys, or nil if no listed key has a value.
func allowed(list []string, from map[string]string) []string {
	if !slices.ContainsFunc(list, func(k string) bool { return from[k] != "" }) {
		return nil
	}
	values := make([]string, len(list))
	for i, k := range list {
		values[i] = labelvalue.Valid(from[k])
	}
	return values
}

func inherit(own, owner []string) []string {
	if own == nil || owner == nil {
		return slices.Concat(own, owner)
	}
	values := slices.Clone(own)
	for i := range values {
		values[i] = cmp.Or(own[i], owner[i])
	}
	return values
}

// specHash returns a hash of a pod's spec. It omits the node name, because scheduling already causes a condition event.
func specHash(p *corev1.Pod) uint64 {
	spec := p.Spec
	spec.NodeName = ""
	encoded, err := spec.Marshal()
	if err != nil {
		return 0 // never happens; the only effect would be that the pod has no events for a changed spec
	}
	h := fnv.New64a()
	_, _ = h.Write(encoded)
	return h.Sum64()
}
