package nodes

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"

	"github.com/gpuledger/gpuledger/internal/nodelabel"
	"github.com/gpuledger/gpuledger/internal/reconciler/apiserver"
)

// sync writes a Node if the Node differs from its desired state. It returns false if the Node must be requeued.
func (t *term) sync(ctx context.Context, name string) bool {
	n := t.node(name)
	if n == nil {
		t.forget(name)
		return true
	}
	want, known := t.want(n)
	if !known || n.matches(want) && !n.legacy {
		if known {
			t.memory.right(name, t.identity(want), time.Now())
		}
		t.held.remove(name)
		return true
	}
	kind := t.kindOf(n, want)
	if kind == kindChange && !t.room(ctx, name, want) {
		return true
	}
	if n.legacy {
		kind = kindTakeOver // the update event requeues the Node
	}
	return t.write(ctx, n, kind, want)
}

// write writes the desired state of a Node. It writes nothing if the update event of an equal write has not arrived
// yet, or if the write must be delayed. It returns false if the write failed.
func (t *term) write(ctx context.Context, n *node, kind string, want nodelabel.Desired) bool {
	if t.opts.DryRun {
		if t.memory.write(n, want, time.Now()) {
			t.log.Info("would write node", "node", n.Name, "kind", kind, "labels", want.Labels, "annotations", want.Annotations)
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
		return true // the context ended
	}
	err := t.request(ctx, n, kind, want)
	switch {
	case errors.Is(err, errNothing):
		return true // the update event of the Node has not arrived yet
	case err != nil && ctx.Err() != nil:
		return true // the context ended
	case err != nil:
		t.memory.missed(n, time.Now())
	case kind != kindTakeOver:
		t.memory.write(n, want, time.Now())
	}
	return t.result(err, n.Name, kind)
}

func (t *term) request(ctx context.Context, n *node, kind string, want nodelabel.Desired) error {
	if kind == kindTakeOver {
		return t.takeOver(ctx, n.Name)
	}
	return apply(ctx, t.kube, n.ObjectMeta, want)
}

// want returns the desired state of a Node, and whether this state is known. A Node that has had no exporter for longer
// than LabelTTL must have no labels.
func (t *term) want(n *node) (nodelabel.Desired, bool) {
	has, since := t.fleet.has(n.Name)
	if has || t.opts.LabelTTL == 0 || n.owned.empty() {
		return t.validator.Want(n.Name, time.Now())
	}
	left := t.opts.LabelTTL - time.Since(since)
	if left > 0 {
		t.writes.AddAfter(n.Name, left)
		return t.validator.Want(n.Name, time.Now())
	}
	t.validator.Forget(n.Name)
	return nodelabel.Desired{}, true
}

const (
	kindFirst     = "first"
	kindChange    = "change"
	kindRepair    = "repair"
	kindTakeOver  = "take_over"
	kindCondition = "condition"
)

// kindOf returns the kind of a write: a first labelling, a change of identity, or a repair. The budget counts only
// changes of identity. If the Node's annotation contains the desired identity, or if this program wrote this identity
// last, the GPUs are unchanged. In this case, either the rules have changed or another client has edited the Node.
func (t *term) kindOf(n *node, want nodelabel.Desired) string {
	identity, last := t.identity(want), t.memory.lastIdentity(n.Name)
	switch {
	case n.owned.empty():
		return kindFirst
	case identity == "":
		return kindChange // the Node no longer has GPUs
	case n.carries(identity) || last == identity:
		return kindRepair
	case len(n.owned.annotations) == 0 && last == "":
		return t.kindOfUnknown(n, want)
	default:
		return kindChange
	}
}

// kindOfUnknown returns the kind of a write for a Node that has labels but no annotation of this program. If the labels
// are correct, the annotation was removed or edited while there was no leader, so the write is a repair. If the labels
// are incorrect and the scheme is gpuid, the labels were probably just taken over, so the write is a first labelling.
// All other writes are changes of identity.
func (t *term) kindOfUnknown(n *node, want nodelabel.Desired) string {
	switch {
	case all(n.Labels, n.owned.labels, want.Labels):
		return kindRepair
	case t.opts.Rules.Scheme == nodelabel.GPUID && t.opts.TakeOver != "":
		return kindFirst
	default:
		return kindChange
	}
}

// carries reports whether an annotation of this program contains the identity. The annotation may have any prefix.
func (n *node) carries(identity string) bool {
	for _, key := range n.owned.annotations {
		if n.Annotations[key] == identity {
			return true
		}
	}
	return false
}

// identity returns the desired inventory annotation.
func (t *term) identity(d nodelabel.Desired) string {
	return d.Annotations[t.opts.Rules.InventoryKey()]
}

// room reports whether the budget allows a change of a Node. If it does not, room queues the Node for a later check.
func (t *term) room(ctx context.Context, name string, want nodelabel.Desired) bool {
	if t.changes.take(ctx, name, t.identity(want), t.fleet.size(), time.Now()) {
		t.held.remove(name)
		return true
	}
	if t.held.add(name) {
		t.log.Warn("change of identity waits: too many nodes changed in the last hour", "node", name)
	}
	t.writes.AddAfter(name, jitter(time.Minute))
	return false
}

// apply sets the desired labels and annotations on a Node, and removes this program's other labels and annotations. The
// request contains the UID, because an apply without a UID would create a deleted Node again.
func apply(ctx context.Context, kube apiserver.Client, to metav1.ObjectMeta, want nodelabel.Desired) error {
	fields := fieldsOf(to)
	fields.Labels, fields.Annotations = want.Labels, want.Annotations
	return apiserver.Apply(ctx, kube.Nodes(), to.Name, fields, manager)
}

// fieldsOf returns the fields that identify a Node in an apply.
func fieldsOf(to metav1.ObjectMeta) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: to.Name, UID: to.UID},
	}
}

var errNothing = errors.New("nothing to take over")

// takeOver transfers the fields of the replaced field manager to this program. Then an apply can remove these fields.
func (t *term) takeOver(ctx context.Context, name string) error {
	n, err := t.kube.Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(n, sets.New(t.opts.TakeOver), manager)
	if err != nil {
		return fmt.Errorf("take over the fields of %s: %w", t.opts.TakeOver, err)
	}
	if patch == nil {
		return errNothing
	}
	_, err = t.kube.Nodes().Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: manager})
	return err
}

// result counts a write, and logs when writes begin to fail and when they succeed again.
func (t *term) result(err error, name, kind string) bool {
	if err == nil {
		t.counts.writes.WithLabelValues(kind).Inc()
		if t.memory.failing(name, "") {
			t.log.Info("node writes succeed again")
		}
		return true
	}
	reason := reasonOf(err)
	t.counts.writeFailures.WithLabelValues(reason).Inc()
	if t.memory.failing(name, reason) {
		t.log.Warn("cannot write node, will retry", "node", name, "reason", reason, "err", err)
	}
	return false
}

func reasonOf(err error) string {
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return "forbidden"
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsInvalid(err):
		return "conflict" // usually the Node was replaced by another Node with the same name
	case apierrors.IsTooManyRequests(err):
		return "throttled"
	default:
		return "error"
	}
}

func (t *term) forget(name string) {
	t.validator.Forget(name)
	t.fleet.forget(name)
	t.memory.forget(name)
	t.held.remove(name)
	t.ignored.remove(name)
	t.conditions.forget(name)
}
