package workloads

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// reference identifies an owner, with the fields of an owner reference. An owner reference contains no namespace, so
// namespace is the namespace of the dependent object. The lookup clears the namespace of a cluster-scoped owner.
type reference struct {
	apiVersion, kind, namespace, name string
	uid                               types.UID
}

// refer converts an owner reference. It truncates each field to the maximum length of a label value, because the API
// server limits only the size of the whole object (1.5 MiB).
func refer(owner *metav1.OwnerReference, namespace string) reference {
	return reference{
		apiVersion: shared(labelvalue.Valid(owner.APIVersion)), kind: shared(labelvalue.Valid(owner.Kind)), namespace: shared(namespace),
		name: strings.Clone(labelvalue.Valid(owner.Name)), uid: types.UID(strings.Clone(labelvalue.Valid(string(owner.UID)))),
	}
}

// groupVersion returns the group and version of an owner's kind if the reference is valid. The creator of a pod can
// write any text into a reference, and the name becomes part of an API path. A name such as "../secrets/x" must not be
// requested.
func (r reference) groupVersion() (gv schema.GroupVersion, ok bool) {
	gv, err := schema.ParseGroupVersion(r.apiVersion)
	legal := err == nil &&
		(gv.Group == "" || len(content.IsDNS1123Subdomain(gv.Group)) == 0) &&
		len(content.IsDNS1123Label(gv.Version)) == 0 &&
		len(content.IsDNS1123Label(strings.ToLower(r.kind))) == 0 &&
		r.name != "" && len(r.name) <= content.DNS1123SubdomainMaxLength && len(content.IsPathSegmentName(r.name)) == 0
	return gv, legal
}

// maxDepth is the maximum length of an owner chain. The longest chains in practice have about eight levels.
const maxDepth = 32

type reason string

// These are the reasons why an owner chain ends before its root. The zero value means that the chain reached the root.
const (
	forbidden   reason = "forbidden"    // RBAC forbids reading the kind
	notFound    reason = "not_found"    // there is no such object, or it has another UID
	unknownKind reason = "unknown_kind" // the API server does not serve the kind
	invalid     reason = "invalid"      // the reference is invalid
	tooDeep     reason = "too_deep"     // more than maxDepth levels
	cycle       reason = "cycle"        // an owner is its own dependent
	failed      reason = "error"        // the API server did not respond; the request is retried soon
)

func reasons() []string {
	return []string{
		string(forbidden), string(notFound), string(unknownKind), string(invalid),
		string(tooDeep), string(cycle),
	}
}

const resultFound = "found"

func results() []string {
	return []string{resultFound, string(forbidden), string(notFound), string(unknownKind), string(invalid), string(failed)}
}

// ownerChain contains the owners of a pod, from its controller to the root. It is immutable and is shared by all pods
// of the controller.
type ownerChain struct {
	levels []reference
	// created contains the creation time of each level, or zero if the time is unknown.
	created []time.Time
	// queue is the queue in the labels of an owner. If several owners have a queue, it is the queue of the owner
	// nearest to the pod.
	queue queue
	// labels contains label values in the order of the allow-list. If several owners have a label, the value comes from
	// the owner nearest to the pod.
	labels []string
	// stopped is the reason why the last level may not be the root.
	stopped reason
}

func (l *ownerChain) root() reference { return l.levels[len(l.levels)-1] }

// parent returns the owner of a level. It returns zero if the level has no owner or the owner is unknown.
func (l *ownerChain) parent(level int) reference {
	if level+1 < len(l.levels) {
		return l.levels[level+1]
	}
	return reference{}
}

// replaces reports whether the chain replaces the known chain, which may be nil. A chain that ends with an error
// replaces no other chain, because its wrong root would create new series in Prometheus. A chain that is only the
// beginning of the known chain does not replace the known chain either, because owners are often deleted before their
// pods.
func (l *ownerChain) replaces(known *ownerChain) bool {
	switch {
	case l.stopped == failed:
		return false
	case known == nil:
		return true
	case l.stopped == known.stopped && l.queue == known.queue && slices.Equal(l.labels, known.labels) && slices.Equal(l.levels, known.levels):
		return false
	case l.stopped == "":
		return true
	case known.stopped == "":
		return false
	}
	return len(l.levels) >= len(known.levels) || !slices.Equal(l.levels, known.levels[:len(l.levels)])
}

type controllerOf func(ctx context.Context, of reference) answer

// trace reads the owners of a pod from its controller to the root. It follows only the controller of each owner,
// because other owner references affect only garbage collection.
func trace(ctx context.Context, controller reference, lookUp controllerOf) *ownerChain {
	l := &ownerChain{}
	seen := make(map[types.UID]bool)
	for at := controller; at != (reference{}); {
		if seen[at.uid] {
			l.stopped = cycle
			return l
		}
		if len(l.levels) == maxDepth {
			l.stopped = tooDeep
			return l
		}
		seen[at.uid] = true
		a := lookUp(ctx, at)
		l.levels, l.created = append(l.levels, a.self), append(l.created, a.created)
		if l.queue == (queue{}) {
			l.queue = a.queue
		}
		l.labels = inherit(l.labels, a.labels)
		if a.why != "" {
			l.stopped = a.why
			return l
		}
		at = a.controller
	}
	return l
}
