package workloads

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// reference names an object as an owner reference does. The namespace of one whose
// scope is not known is that of what it owns.
type reference struct {
	apiVersion, kind, namespace, name string
	uid                               types.UID
}

// refer returns an owner reference of an object in a namespace, no part of it longer
// than a label value may be: the API server bounds only the whole object, to 1.5 MiB.
func refer(owner *metav1.OwnerReference, namespace string) reference {
	return reference{
		apiVersion: shared(labelvalue.Valid(owner.APIVersion)), kind: shared(labelvalue.Valid(owner.Kind)), namespace: shared(namespace),
		name: strings.Clone(labelvalue.Valid(owner.Name)), uid: types.UID(strings.Clone(labelvalue.Valid(string(owner.UID)))),
	}
}

// groupVersion returns the group and version of an owner's kind, if the reference can
// name anything. Whoever can make a pod can write anything into its references, and a
// name becomes part of a path of the API: "../secrets/x" must not be asked for.
func (r reference) groupVersion() (gv schema.GroupVersion, ok bool) {
	gv, err := schema.ParseGroupVersion(r.apiVersion)
	legal := err == nil &&
		(gv.Group == "" || len(content.IsDNS1123Subdomain(gv.Group)) == 0) &&
		len(content.IsDNS1123Label(gv.Version)) == 0 &&
		len(content.IsDNS1123Label(strings.ToLower(r.kind))) == 0 &&
		r.name != "" && len(r.name) <= content.DNS1123SubdomainMaxLength && len(content.IsPathSegmentName(r.name)) == 0
	return gv, legal
}

// maxDepth bounds the walk from a pod to its root. The longest chains in use have
// about eight levels.
const maxDepth = 32

// reason is why a walk ended before it was known to have reached the root.
type reason string

// The reasons. The zero value means that the root was reached.
const (
	forbidden   reason = "forbidden"    // RBAC does not let us read the kind
	notFound    reason = "not_found"    // there is no such object, or it is another one of that name
	unknownKind reason = "unknown_kind" // the API server serves no such kind
	invalid     reason = "invalid"      // the reference can name nothing
	tooDeep     reason = "too_deep"     // more than maxDepth levels
	cycle       reason = "cycle"        // an owner is owned by what it owns
	failed      reason = "error"        // the API server did not answer; it is asked again soon
)

// reasons returns why a walk that is shown can end.
func reasons() []string {
	return []string{
		string(forbidden), string(notFound), string(unknownKind), string(invalid),
		string(tooDeep), string(cycle),
	}
}

// resultFound is what a lookup is counted as that gave no reason to stop.
const resultFound = "found"

// results returns what a lookup can give.
func results() []string {
	return []string{resultFound, string(forbidden), string(notFound), string(unknownKind), string(invalid), string(failed)}
}

// ownerChain is the owners of a pod, from its controller up to its root. It is the same
// for all pods of one controller, and never changes.
type ownerChain struct {
	levels []reference
	// stopped is why the last level may not be the root.
	stopped reason
}

func (l *ownerChain) root() reference { return l.levels[len(l.levels)-1] }

// parent returns the owner of a level, zero if it has none that is known.
func (l *ownerChain) parent(level int) reference {
	if level+1 < len(l.levels) {
		return l.levels[level+1]
	}
	return reference{}
}

// tellsMoreThan reports whether the chain is to replace the known one, nil
// if nothing was. A server that did not answer told nothing: a root that is wrong until
// the next try would be series of its own for ever. And what was known of the same
// owners is not given up for less, for they are often deleted before their pods.
func (l *ownerChain) tellsMoreThan(known *ownerChain) bool {
	switch {
	case l.stopped == failed:
		return false
	case known == nil:
		return true
	case l.stopped == known.stopped && slices.Equal(l.levels, known.levels):
		return false
	case l.stopped == "":
		return true
	case known.stopped == "":
		return false
	}
	return len(l.levels) >= len(known.levels) || !slices.Equal(l.levels, known.levels[:len(l.levels)])
}

// controllerOf returns the controller of an object as the API server knows it, the
// object itself with its scope settled, and why the controller is not known.
type controllerOf func(ctx context.Context, of reference) (self, controller reference, why reason)

// trace walks from a pod's controller to the root. Only controllers are followed:
// what else is named as an owner only wants to be asked before the garbage collector
// acts.
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
		self, next, why := lookUp(ctx, at)
		l.levels = append(l.levels, self)
		if why != "" {
			l.stopped = why
			return l
		}
		at = next
	}
	return l
}
