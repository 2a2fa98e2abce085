package nodes

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/internal/reconciler/exporter"
	"github.com/gpuledger/gpuledger/internal/reconciler/validator"
)

// lanes limits how many items of a queue are processed at the same time. Each item occupies a lane. A request that
// takes longer than prompt releases its lane, so that hanging requests do not occupy all lanes. The channel late limits
// the number of such requests. It has room for all of them, because each request ends after the exporter timeout.
type lanes struct {
	number int
	prompt time.Duration
	late   chan struct{}
}

const minPrompt = 10 * time.Millisecond

func newLanes(o *Options) *lanes {
	return &lanes{
		number: o.Concurrency,
		prompt: max(time.Duration(float64(o.Concurrency)/o.Rate*float64(time.Second)), minPrompt),
		late:   make(chan struct{}, int(math.Ceil(o.Rate*o.Exporters.Timeout.Seconds()))),
	}
}

func (l *lanes) occupy(done <-chan struct{}) {
	select {
	case <-done:
		return
	case <-time.After(l.prompt):
	}
	select {
	case <-done:
	case l.late <- struct{}{}:
		go func() {
			<-done
			<-l.late
		}()
	}
}

func inLanes[T comparable](ctx context.Context, l *lanes, queue workqueue.TypedRateLimitingInterface[T], do func(context.Context, T) bool) {
	var running sync.WaitGroup
	start := func(item T) {
		done := make(chan struct{})
		running.Go(func() {
			handle(ctx, queue, item, do)
			close(done)
		})
		l.occupy(done)
	}
	for range l.number {
		running.Go(func() {
			for item, stop := queue.Get(); !stop && ctx.Err() == nil; item, stop = queue.Get() {
				start(item)
			}
		})
	}
	running.Wait()
}

func (t *term) readAll(ctx context.Context) {
	inLanes(ctx, newLanes(&t.opts), t.reads, t.read)
}

// read requests the page of an exporter. It returns false if the exporter does not respond.
func (t *term) read(ctx context.Context, name cache.ObjectName) bool {
	target := t.fleet.target(name)
	if target.Address == "" {
		t.fleet.tried(name, nil) // the exporter is queued again when it becomes ready
		return true
	}
	if n := t.node(target.Node); n == nil || !t.hasGPU(n) {
		t.skip(name, target.Node, n != nil)
		return true
	}
	if t.readRate.Wait(ctx) != nil {
		return true // the context ended
	}
	page, err := t.client.Read(ctx, target)
	if ctx.Err() != nil {
		return true
	}
	t.counts.reads.WithLabelValues(resultOf(err)).Inc()
	if t.fleet.tried(name, err) {
		t.sayRead(name, target, err)
	}
	if err != nil {
		return false
	}
	again := t.report(name, target, page)
	if t.fleet.target(name).Node != target.Node {
		t.validator.ForgetExporter(target.Node, name.String()) // the exporter was deleted while it was being read
	}
	t.reads.AddAfter(name, again)
	return true
}

// skip does not read an exporter whose Node is unknown or has no known GPU, because a user may have forged the
// exporter's pod. The exporter is queued later, when the Node is registered or a GPU of the Node becomes known. A
// change of the expected inventory can also make a GPU known, but queues no exporter. So skip queues the exporter of a
// registered Node again after some time.
func (t *term) skip(name cache.ObjectName, node string, registered bool) {
	t.fleet.skipped(name)
	if registered {
		t.reads.AddAfter(name, t.ignore(node))
	}
}

// report validates the page of an exporter and returns the time until the next reading.
func (t *term) report(name cache.ObjectName, target exporter.Target, page inventory.Page) time.Duration {
	n := t.node(target.Node)
	switch {
	case n == nil:
		return jitter(t.opts.Resync) // when the Node is registered, its exporter is queued
	case !t.hasGPU(n):
		return t.ignore(target.Node)
	}
	t.ignored.remove(target.Node)
	finding := t.validator.Read(target.Node, name.String(), page, time.Now())
	t.note(target.Node, finding)
	t.writes.Add(target.Node)
	if finding.State == validator.Unconfirmed {
		return jitter(t.opts.Confirm)
	}
	return jitter(t.opts.Resync)
}

// ignore rejects the inventory of a Node without a known GPU after the time settleIn.
func (t *term) ignore(node string) time.Duration {
	now := time.Now()
	if left := settleIn - now.Sub(t.ignored.add(node, now)); left > 0 {
		return left
	}
	t.note(node, t.validator.Reject(node, validator.NoGPU, "no resource, ResourceSlice or label of the node shows a GPU", now))
	return jitter(t.opts.Resync)
}

// note logs a new finding about a Node. If an earlier finding was a conflict with another Node, note queues this other
// Node, because the conflict may be resolved.
func (t *term) note(node string, finding validator.Finding) {
	news, other := t.memory.note(node, finding)
	if news {
		t.logRefused(node, finding)
	}
	if other != "" {
		t.writes.Add(other)
	}
}

// jitter extends a duration by up to a quarter, to spread simultaneous events.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/4+1) }

func resultOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, exporter.ErrStatus):
		return "refused"
	case errors.Is(err, exporter.ErrGarbage):
		return "garbage"
	default:
		return "unreachable"
	}
}

func (t *term) sayRead(name cache.ObjectName, target exporter.Target, err error) {
	if err != nil {
		t.log.Warn("cannot read the exporter, will retry", "namespace", name.Namespace, "pod", name.Name, "node", target.Node, "err", err)
		return
	}
	t.log.Info("can read the exporter again", "namespace", name.Namespace, "pod", name.Name, "node", target.Node)
}

func (t *term) logRefused(node string, f validator.Finding) {
	if !f.State.Refused() {
		t.log.Info("inventory accepted again", "node", node)
		return
	}
	t.log.Warn("inventory rejected, node labels stay unchanged", "node", node, "reason", string(f.State), "err", f.Detail, "other_node", f.Other)
	if t.opts.DryRun {
		return
	}
	message := "Not labelled: inventory rejected: " + f.Detail
	for _, name := range []string{node, f.Other} {
		if n := t.node(name); n != nil {
			t.event(n, corev1.EventTypeWarning, "InventoryRefused", message)
		}
	}
}

func (t *term) event(n *node, kind, reason, message string) {
	t.events.Event(&corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: n.Name, UID: n.UID}, kind, reason, message)
}
