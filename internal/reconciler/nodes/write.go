package nodes

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"

	"github.com/gpuledger/gpuledger/internal/nodelabel"

	applycore "k8s.io/client-go/applyconfigurations/core/v1"
)

// sync compares a Node with what it should bear, and writes it if they differ. It
// reports whether there is nothing left to do.
func (t *term) sync(ctx context.Context, name string) bool {
	n := t.node(name)
	if n == nil {
		t.forget(name)
		return true
	}
	owned := ownedBy(n, isOurs)
	want, known := t.want(name, owned)
	legacy := slices.ContainsFunc(n.ManagedFields, t.opts.takesOver)
	if !known || bears(n, owned, want) && !legacy {
		if known {
			t.memory.right(name, t.identity(want))
		}
		t.held.remove(name)
		return true
	}
	kind := t.kindOf(n, owned, want)
	if kind == kindChange && !t.room(name, want) {
		return true
	}
	if legacy {
		kind = kindTakeOver // and the Node's update brings it here again
	}
	return t.write(ctx, n, kind, want)
}

// write writes a Node, unless that was done and not heard of yet, or it is too soon.
// It reports whether that did not fail.
func (t *term) write(ctx context.Context, n *corev1.Node, kind string, want nodelabel.Desired) bool {
	if t.opts.DryRun {
		if t.memory.write(n, want, time.Now()) {
			t.log.Info("would write the node", "node", n.Name, "kind", kind, "labels", want.Labels, "annotations", want.Annotations)
		}
		return true
	}
	news, wait := t.memory.news(n, want, time.Now())
	switch {
	case !news:
		return true
	case wait > 0:
		t.writes.AddAfter(n.Name, wait)
		return true
	case t.writeRate.Wait(ctx) != nil:
		return true // the term ends
	}
	if kind == kindTakeOver {
		return t.result(t.takeOver(ctx, n.Name), n.Name, kind)
	}
	err := t.apply(ctx, n, want)
	if err == nil {
		t.memory.write(n, want, time.Now())
	}
	return t.result(err, n.Name, kind)
}

// want returns what a Node should bear, and whether that is known. A Node that had no
// exporter for long enough should bear nothing.
func (t *term) want(name string, owned keys) (nodelabel.Desired, bool) {
	has, since := t.fleet.has(name)
	if has || t.opts.LabelTTL == 0 || owned.empty() {
		return t.judge.Want(name, time.Now())
	}
	left := t.opts.LabelTTL - time.Since(since)
	if left > 0 {
		t.writes.AddAfter(name, left)
		return t.judge.Want(name, time.Now())
	}
	t.judge.Forget(name)
	return nodelabel.Desired{}, true
}

// The kinds of writes.
const (
	kindFirst    = "first"
	kindChange   = "change"
	kindRepair   = "repair"
	kindTakeOver = "take_over"
)

// kindOf tells a change of identity, which the budget counts, from a first labelling
// and from the repair of what somebody else changed. The annotation holds the whole
// identity: as long as it is what it should be, or what we last made it, only rules
// or hands have changed.
func (t *term) kindOf(n *corev1.Node, owned keys, want nodelabel.Desired) string {
	identity := t.identity(want)
	switch {
	case owned.empty():
		return kindFirst
	case identity != "" && (carries(n, owned, identity) || t.memory.bore(n.Name) == identity):
		return kindRepair
	default:
		return kindChange
	}
}

// carries reports whether a Node has an identity in an annotation of ours, whatever
// the prefix was when it was written.
func carries(n *corev1.Node, owned keys, identity string) bool {
	for key := range owned.annotations {
		if n.Annotations[key] == identity {
			return true
		}
	}
	return false
}

// identity is what the annotation says.
func (t *term) identity(d nodelabel.Desired) string {
	return d.Annotations[t.opts.Rules.InventoryKey()]
}

// room reports whether the budget has room for a change; if not, the Node is looked
// at again.
func (t *term) room(name string, want nodelabel.Desired) bool {
	if t.budget.Take(name, t.identity(want), t.fleet.size(), time.Now()) {
		t.held.remove(name)
		return true
	}
	if t.held.add(name) {
		t.log.Warn("change of identity waits for the budget", "node", name)
	}
	t.writes.AddAfter(name, jitter(time.Minute))
	return false
}

// apply makes a Node bear exactly what it should, of what is ours. The UID makes it
// this Node: an apply to one that is gone would otherwise make a new one, given the
// right to.
func (t *term) apply(ctx context.Context, n *corev1.Node, want nodelabel.Desired) error {
	cfg := applycore.Node(n.Name).WithUID(n.UID).WithLabels(want.Labels).WithAnnotations(want.Annotations)
	_, err := t.kube.CoreV1().Nodes().Apply(ctx, cfg, metav1.ApplyOptions{FieldManager: manager, Force: true})
	return err
}

// takeOver makes the labels of the manager that we replace ours. From then on, an
// apply removes what is stale.
func (t *term) takeOver(ctx context.Context, name string) error {
	n, err := t.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(n, sets.New(t.opts.TakeOver), manager)
	if err != nil {
		return fmt.Errorf("take over the fields of %s: %w", t.opts.TakeOver, err)
	}
	_, err = t.kube.CoreV1().Nodes().Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: manager})
	return err
}

// result counts a write and says if writes went wrong, or no longer do.
func (t *term) result(err error, name, kind string) bool {
	if err == nil {
		t.counts.writes.WithLabelValues(kind).Inc()
		if t.memory.failing("") {
			t.log.Info("nodes written again")
		}
		return true
	}
	reason := reasonOf(err)
	t.counts.writeFailures.WithLabelValues(reason).Inc()
	if t.memory.failing(reason) {
		t.log.Warn("node not written, will keep trying", "node", name, "reason", reason, "err", err)
	}
	return false
}

// reasonOf sorts the API server's errors by what to do about them.
func reasonOf(err error) string {
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return "forbidden"
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsInvalid(err):
		return "conflict" // most of all: another Node of that name
	case apierrors.IsTooManyRequests(err):
		return "throttled"
	default:
		return "error"
	}
}

// forget forgets a Node that is gone.
func (t *term) forget(name string) {
	t.judge.Forget(name)
	t.fleet.forget(name)
	t.memory.forget(name)
	t.held.remove(name)
}
