package workloads

import (
	"hash/fnv"
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// pod is what is kept of a pod that asks, or may ask, for a GPU. It takes the pod's
// place in the informer's store, and never changes once it is there.
type pod struct {
	namespace, name string
	uid             types.UID
	version         string // the resource version
	generation      int64
	created         time.Time

	node        string
	owner       reference // the controller; zero if there is none
	asks        []ask
	claims      []string // names of its resource claims, each once
	labels      []string // values, in the order of the allow-list
	annotations []string
	// finished is when the last container ended for good, zero if one has not.
	finished time.Time

	// status and full are kept for the log of events only, full until its snapshot
	// is written.
	status *status
	full   *corev1.Pod
}

// key names a pod's series. The UID alone would do if nothing were ever wrong.
type key struct{ namespace, name, uid string }

func (p *pod) key() key { return key{p.namespace, p.name, string(p.uid)} }

// GetObjectMeta implements [metav1.ObjectMetaAccessor], which is how the informer knows
// its objects. To store what it returns would make a pod twice as large.
func (p *pod) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: p.namespace, Name: p.name, UID: p.uid, ResourceVersion: p.version}
}

// Keep returns what is kept of a pod that asks for a GPU, or for a claim that may be
// one. Of any other pod it keeps nothing. It may be called by one goroutine at a
// time, while Run runs too.
func (w *Workloads) Keep(from *corev1.Pod) (kept metav1.ObjectMetaAccessor, ok bool) {
	asks, claims := w.requests(from), claimNames(from)
	if len(asks) == 0 && len(claims) == 0 {
		return nil, false
	}
	p := &pod{
		namespace: shared(from.Namespace), name: from.Name, uid: from.UID,
		version: from.ResourceVersion, generation: from.Generation, created: from.CreationTimestamp.Time,
		node:        shared(from.Spec.NodeName),
		owner:       ownerOf(from),
		asks:        asks,
		claims:      claims,
		labels:      allowed(w.opts.PodLabels, from.Labels),
		annotations: allowed(w.opts.PodAnnotations, from.Annotations),
		finished:    finished(from),
	}
	if w.opts.Events {
		p.status = w.keepStatus(from)
	}
	if w.opts.Snapshots == snapshotsLog && (w.listed.Load() || time.Since(p.changed()) < recently) {
		p.full = from // of a list, only those with something to tell: all would be too much
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

// finished returns when a pod that has succeeded or failed did so. A pod that was
// refused by its node never ran a container: then its conditions know, or nobody but
// its maker does.
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
		return time.Unix(0, 0) // finished, and long ago as far as anybody knows
	}
	return last
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// statuses yields the status of every container, whatever its sort.
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

// allowed returns the values of the listed keys, nil if there is none.
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

// specHash stands for a pod's spec. The node is left out: that a pod was scheduled
// is a condition.
func specHash(p *corev1.Pod) uint64 {
	spec := p.Spec
	spec.NodeName = ""
	encoded, err := spec.Marshal()
	if err != nil {
		return 0 // no spec fails to be encoded; if one did, its changes are not told
	}
	h := fnv.New64a()
	_, _ = h.Write(encoded)
	return h.Sum64()
}
