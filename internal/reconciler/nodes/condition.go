package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/gpuledger/gpuledger/internal/health"
	"github.com/gpuledger/gpuledger/internal/labelvalue"
	"github.com/gpuledger/gpuledger/internal/reconciler/apiserver"
)

const conditionType = "GPULedgerHealthy"

const (
	// healthEvery is the interval at which the health of an exporter is read, unless --resync is shorter.
	healthEvery = time.Minute
	// healthAge is the maximum age of a health page. Without a newer page, the health of a Node is unknown.
	healthAge = 5 * time.Minute
	// maxMessage limits the message of a condition, in bytes.
	maxMessage = 1024
)

// condition contains the parts of a Node's condition that the reconciler compares with the desired condition. The
// reconciler writes the condition only if a part differs.
type condition struct {
	status          corev1.ConditionStatus
	reason, message string
}

// conditionOf returns this program's condition on a Node, and the time at which the status of the condition last
// changed. If the Node does not have the condition, conditionOf returns zero values.
func conditionOf(n *corev1.Node) (condition, metav1.Time) {
	i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == conditionType })
	if i < 0 {
		return condition{}, metav1.Time{}
	}
	c := &n.Status.Conditions[i]
	return condition{c.Status, c.Reason, c.Message}, c.LastTransitionTime
}

// unread is the condition of a Node without a responding exporter.
var unread = condition{corev1.ConditionUnknown, "NotRead", "no exporter of this node was read for five minutes"}

// newCondition returns the condition for a health page. It omits counts and times, so that the reconciler writes the
// condition only when the state changes.
func newCondition(p *health.Page) condition {
	c := condition{corev1.ConditionTrue, "OK", "no GPU of this node needs a reset or a return"}
	switch p.Advice {
	case health.OK:
		return c
	case health.Watch:
		c.reason = "Watch"
	case health.Reset:
		c.status, c.reason = corev1.ConditionFalse, "Reset"
	case health.Return:
		c.status, c.reason = corev1.ConditionFalse, "Return"
	default: // unknown advice from a newer exporter
		c.status, c.reason = corev1.ConditionFalse, "Unknown"
	}
	var parts []string
	add := func(what string, findings []health.Evidence) {
		var codes []string
		for _, e := range findings {
			codes = append(codes, e.Code)
		}
		if len(codes) > 0 {
			parts = append(parts, what+": "+strings.Join(codes, ", "))
		}
	}
	add("node", p.Evidence)
	for i := range p.GPUs {
		g := &p.GPUs[i]
		add(fmt.Sprintf("%s, serial %s, PCI %s", g.Advice, g.Serial, g.PCIBusID), g.Evidence)
	}
	c.message = labelvalue.Printable(strings.Join(parts, "; "))
	if len(c.message) > maxMessage {
		c.message = strings.ToValidUTF8(c.message[:maxMessage-3], "") + "..."
	}
	return c
}

// conditions is nil if conditions are disabled.
type conditions struct {
	queue   workqueue.TypedRateLimitingInterface[string]
	changes *changes // budget for Nodes that become unhealthy

	mu       sync.Mutex
	followed map[string]time.Time // time of the last health page by Node, or of the first call of follow
	waiting  map[string]bool      // Nodes that wait for the budget
}

func newConditions(record Record, log *slog.Logger) *conditions {
	return &conditions{
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](writeAgain, writeAgainMax)),
		changes:  newChanges(record, spentOnConditionsKey, log),
		followed: make(map[string]time.Time), waiting: make(map[string]bool),
	}
}

func (c *conditions) follow(node string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.followed[node]; !known {
		c.followed[node] = time.Now()
		c.queue.Add(node)
	}
}

func (c *conditions) forget(node string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.followed, node)
	delete(c.waiting, node)
}

func (c *conditions) age(node string, read bool) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.followed[node]; known && read {
		c.followed[node] = time.Now()
	}
	return time.Since(c.followed[node])
}

// waits records whether a Node waits for the budget. It returns true if the Node waits now but did not wait before.
func (c *conditions) waits(node string, waiting bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.waiting[node]
	if delete(c.waiting, node); waiting {
		c.waiting[node] = true
	}
	return waiting && !was
}

// syncCondition returns false if the write failed.
func (t *term) syncCondition(ctx context.Context, name string) bool {
	n := t.node(name)
	if n == nil {
		t.conditions.forget(name)
		return true
	}
	want := t.wantCondition(ctx, n)
	if ok := want == n.condition || t.writeCondition(ctx, n, want); !ok {
		return false
	}
	t.conditions.queue.AddAfter(name, jitter(min(healthEvery, t.opts.Resync)))
	return true
}

// wantCondition returns the desired condition of a Node, from the first exporter on the Node that responds. If no
// exporter responds, the Node keeps its condition for the time healthAge. A Node has no condition until an exporter has
// responded.
func (t *term) wantCondition(ctx context.Context, n *node) condition {
	if !t.hasGPU(n) {
		return n.condition
	}
	for _, name := range t.fleet.on(n.Name) {
		target := t.fleet.target(name)
		if target.Address == "" || t.readRate.Wait(ctx) != nil {
			continue
		}
		page, err := t.client.ReadHealth(ctx, target)
		if err != nil {
			t.log.Debug("cannot read the health of an exporter", "namespace", name.Namespace, "pod", name.Name, "node", n.Name, "err", err)
			continue
		}
		t.conditions.age(n.Name, true)
		return newCondition(&page)
	}
	if n.condition == (condition{}) || t.conditions.age(n.Name, false) < healthAge {
		return n.condition
	}
	return unread
}

// writeCondition writes a condition. If the budget does not allow another unhealthy Node, the write must wait.
func (t *term) writeCondition(ctx context.Context, n *node, want condition) bool {
	worse := want.status == corev1.ConditionFalse && n.condition.status != corev1.ConditionFalse
	if worse && !t.conditions.changes.take(ctx, n.Name, want.reason, t.fleet.size(), time.Now()) {
		if t.conditions.waits(n.Name, true) {
			t.log.Warn("condition of an unhealthy node not written: too many nodes became unhealthy in the last hour", "node", n.Name, "reason", want.reason, "message", want.message)
		}
		return true
	}
	t.conditions.waits(n.Name, false)
	if t.opts.DryRun {
		t.log.Info("would set node condition", "node", n.Name, "status", string(want.status), "reason", want.reason, "message", want.message)
		return true
	}
	if t.writeRate.Wait(ctx) != nil {
		return true // the context ended
	}
	now := metav1.Now()
	since := n.conditionSince
	if want.status != n.condition.status {
		since = now
	}
	fields := conditionFields{PartialObjectMetadata: fieldsOf(n.ObjectMeta)}
	fields.Status.Conditions = []corev1.NodeCondition{{
		Type: conditionType, Status: want.status, Reason: want.reason, Message: want.message,
		LastHeartbeatTime: now, LastTransitionTime: since,
	}}
	err := apiserver.Apply(ctx, t.kube.Nodes(), n.Name, fields, manager, "status")
	if err != nil && ctx.Err() != nil {
		return true // the context ended
	}
	if err == nil {
		t.announce(n, want)
	}
	return t.result(err, n.Name, kindCondition)
}

// conditionFields is the body of a server-side apply that sets the condition.
type conditionFields struct {
	metav1.PartialObjectMetadata
	Status struct {
		Conditions []corev1.NodeCondition `json:"conditions"`
	} `json:"status"`
}

// announce writes an Event for a changed condition, but no Event for a Node whose first condition is healthy.
func (t *term) announce(n *node, c condition) {
	kind := corev1.EventTypeNormal
	switch {
	case c.status == corev1.ConditionFalse:
		kind = corev1.EventTypeWarning
	case n.condition == (condition{}) && c.reason == "OK":
		return
	}
	t.event(n, kind, c.reason, conditionType+" is "+string(c.status)+": "+c.message)
}
