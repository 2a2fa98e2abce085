package workloads

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"golang.org/x/sync/singleflight"
)

// These are the lifetimes of cached results. foundFor is long, because the controller of an object rarely changes.
// refusedFor is short, because administrators can change permissions and the served kinds at any time.
const (
	foundFor   = time.Hour
	refusedFor = 5 * time.Minute
)

// lookup reads owners with metadata-only requests and caches the results. It is safe for concurrent use. Concurrent
// callers that request the same owner share one request.
type lookup struct {
	objects metadata.Interface
	kinds   *kinds
	labels  []string // names of the labels that pods inherit from owners
	count   func(result string)
	log     *slog.Logger

	flights singleflight.Group

	mu    sync.Mutex
	known map[reference]answer
	// closed contains the kinds and namespaces that RBAC forbids, with the earliest time of the next request. Without
	// this map, each of thousands of Jobs would cause a request.
	closed map[scope]time.Time
	// logged contains the logged errors by reason and kind.
	logged map[string]bool
}

// The namespace of a scope is empty for cluster-scoped kinds.
type scope struct {
	kind      schema.GroupKind
	namespace string
}

// answer is the result of a request for an owner. self is the reference to this owner, with the owner's own namespace.
// controller is the reference to the owner's controller. If the request failed, the field why contains the reason, and
// the other values are unknown.
type answer struct {
	self, controller reference
	created          time.Time
	queue            queue
	labels           []string // values in the order of the allow-list
	why              reason
	until            time.Time
}

func newLookup(objects metadata.Interface, kinds *kinds, count func(string), log *slog.Logger) *lookup {
	return &lookup{
		objects: objects, kinds: kinds, count: count, log: log,
		known:  make(map[reference]answer),
		closed: make(map[scope]time.Time),
		logged: make(map[string]bool),
	}
}

func (l *lookup) controllerOf(ctx context.Context, of reference) answer {
	if a, ok := l.recall(of); ok {
		return a
	}
	v, _, _ := l.flights.Do(of.flight(), func() (any, error) {
		// Another request may have cached the result in the meantime.
		if a, ok := l.recall(of); ok {
			return a, nil
		}
		a := l.ask(ctx, of)
		l.remember(of, a)
		return a, nil
	})
	return v.(answer)
}

func (r reference) flight() string {
	return fmt.Sprintf("%q %q %q %q %q", r.apiVersion, r.kind, r.namespace, r.name, r.uid)
}

func (l *lookup) recall(of reference) (answer, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.known[of]
	return a, ok && time.Now().Before(a.until)
}

func (l *lookup) remember(of reference, a answer) {
	if a.why == failed {
		return
	}
	a.until = time.Now().Add(foundFor)
	if a.why != "" {
		a.until = time.Now().Add(refusedFor)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[of] = a
}

func (l *lookup) forget() {
	l.kinds.forget()
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.known, func(_ reference, a answer) bool { return !time.Now().Before(a.until) })
	maps.DeleteFunc(l.closed, func(_ scope, until time.Time) bool { return !time.Now().Before(until) })
}

func (l *lookup) ask(ctx context.Context, of reference) (a answer) {
	defer func() {
		if a.why != failed || ctx.Err() == nil { // an interrupted request is not a failure
			l.count(a.result())
		}
	}()
	a.self = of
	gv, ok := of.groupVersion()
	if !ok {
		a.why = invalid
		return a
	}
	gk := gv.WithKind(of.kind).GroupKind()
	if gk == (schema.GroupKind{Kind: "Node"}) {
		a.self.namespace = "" // a Node owns its static pods, and has no owner
		return a
	}
	resource, err := l.kinds.resource(ctx, gv, of.kind)
	if err != nil {
		a.why = l.explain(err, of)
		return a
	}
	if !resource.Namespaced {
		a.self.namespace = ""
	} else if of.namespace == "" {
		a.why = invalid // a cluster-scoped object cannot have a namespaced owner
		return a
	}
	if l.isClosed(scope{gk, a.self.namespace}) {
		a.why = forbidden
		return a
	}
	return l.get(ctx, gv.WithResource(resource.Name), gk, a.self)
}

func (l *lookup) get(ctx context.Context, resource schema.GroupVersionResource, gk schema.GroupKind, self reference) answer {
	a := answer{self: self}
	found, err := l.objects.Resource(resource).Namespace(self.namespace).Get(ctx, self.name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		l.close(scope{gk, self.namespace})
		a.why = l.explain(err, self)
	case err != nil:
		a.why = l.explain(err, self)
	case found.UID != self.uid:
		a.why = notFound
	default:
		a.created, a.queue, a.labels = found.CreationTimestamp.Time, queueOfOwner(found.Labels), allowed(l.labels, found.Labels)
		if owner := metav1.GetControllerOfNoCopy(found); owner != nil {
			a.controller = refer(owner, self.namespace)
		}
	}
	return a
}

func (a answer) result() string {
	if a.why == "" {
		return resultFound
	}
	return string(a.why)
}

func (l *lookup) isClosed(at scope) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.closed[at])
}

func (l *lookup) close(at scope) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed[at] = time.Now().Add(refusedFor)
}

// explain classifies an error. Errors that an administrator can fix are logged once for each kind.
func (l *lookup) explain(err error, of reference) reason {
	switch {
	case apierrors.IsForbidden(err):
		l.sayOnce(forbidden, of.kind, err)
		return forbidden
	case apierrors.IsNotFound(err):
		return notFound
	case meta.IsNoMatchError(err):
		l.sayOnce(unknownKind, of.kind, err)
		return unknownKind
	}
	l.log.Debug("cannot read owner, will retry", "kind", of.kind, "namespace", of.namespace, "name", of.name, "err", err)
	return failed
}

// maxLogged limits the logged errors about kinds, because a pod can name any kind.
const maxLogged = 100

func (l *lookup) sayOnce(why reason, kind string, err error) {
	l.mu.Lock()
	key := string(why) + " " + kind
	first := !l.logged[key] && len(l.logged) < maxLogged
	l.logged[key] = l.logged[key] || first
	l.mu.Unlock()
	if first {
		l.log.Warn("cannot resolve owners of this kind", "kind", kind, "reason", string(why), "err", err)
	}
}
