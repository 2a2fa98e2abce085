package nodes

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuledger/gpuledger/internal/reconciler/exporter"
)

// listen adds the event handlers to the informers. Each returned function reports whether a handler has received the
// first list.
func (t *term) listen() ([]cache.InformerSynced, error) {
	var delivered []cache.InformerSynced
	for _, informer := range t.pods {
		r, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    t.podSeen,
			UpdateFunc: func(_, obj any) { t.podSeen(obj) },
			DeleteFunc: t.podGone,
		})
		if err != nil {
			return nil, fmt.Errorf("watch pods: %w", err)
		}
		delivered = append(delivered, r.HasSynced)
	}
	for _, informer := range t.owners.informers {
		r, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    t.daemonSetSeen,
			UpdateFunc: func(_, obj any) { t.daemonSetSeen(obj) },
			DeleteFunc: t.daemonSetGone,
		})
		if err != nil {
			return nil, fmt.Errorf("watch daemonsets: %w", err)
		}
		delivered = append(delivered, r.HasSynced)
	}
	r, err := t.nodes.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if !initial {
				t.nodeRegistered(obj)
			}
			t.nodeSeen(obj)
		},
		UpdateFunc: func(old, obj any) {
			if replaced(old, obj) {
				t.nodeGone(old)
				t.nodeRegistered(obj)
			}
			t.nodeSeen(obj)
		},
		DeleteFunc: t.nodeGone,
	})
	if err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	return append(delivered, r.HasSynced), nil
}

func (t *term) nodeSeen(obj any) {
	if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
		t.admit(name.Name)
		t.writes.Add(name.Name)
		t.conditions.follow(name.Name)
	}
}

// replaced reports whether the two objects of an update are different Nodes with the same name. Such an update occurs
// if the watch missed the deletion of the old Node.
func replaced(old, obj any) bool {
	before, ok := old.(*node)
	after, still := obj.(*node)
	return ok && still && before.UID != after.UID
}

// nodeGone immediately forgets a deleted Node, so that labels for the GPUs of the old Node are not written to a new
// Node with the same name.
func (t *term) nodeGone(obj any) {
	if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
		t.forget(name.Name)
	}
}

// nodeRegistered queues the exporters on a new Node. After a Node registers again, its exporter pod may be unchanged.
// Then no pod event queues the exporter.
func (t *term) nodeRegistered(obj any) {
	name, err := cache.ObjectToName(obj)
	if err != nil {
		return
	}
	t.readNode(name.Name)
}

func (t *term) readNode(node string) {
	for _, name := range t.fleet.on(node) {
		t.readSoon(name)
	}
}

// readSoon queues an exporter immediately. It resets the exporter's backoff after earlier failures.
func (t *term) readSoon(name cache.ObjectName) {
	t.reads.Forget(name)
	t.reads.Add(name)
}

func (t *term) podSeen(obj any) {
	t.podEvents.Lock()
	defer t.podEvents.Unlock()
	t.follow(obj)
}

func (t *term) podGone(obj any) {
	t.podEvents.Lock()
	defer t.podEvents.Unlock()
	if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
		t.gone(name)
	}
}

// follow queues an exporter that became ready or restarted. It ignores pods that no listed DaemonSet owns.
func (t *term) follow(obj any) {
	pod, ok := obj.(*exporter.Pod)
	if !ok {
		return
	}
	name := cache.MetaObjectToName(pod)
	switch {
	case pod.Target == nil:
		t.gone(name)
	case !t.owners.owns(*pod.Target):
		t.gone(name)
		t.fleet.disown(name)
	case t.fleet.put(name, *pod.Target):
		t.readSoon(name)
	}
}

func (t *term) daemonSetSeen(obj any) {
	if d, ok := obj.(*appsv1.DaemonSet); ok && t.owners.set(d.Namespace, d.Name, d.UID) {
		t.followAll()
	}
}

func (t *term) daemonSetGone(obj any) {
	name, err := cache.DeletionHandlingObjectToName(obj)
	if err == nil && t.owners.set(name.Namespace, name.Name, "") {
		t.followAll()
	}
}

// followAll checks every pod again. The lock prevents additions and deletions of pods during the loop.
func (t *term) followAll() {
	t.podEvents.Lock()
	defer t.podEvents.Unlock()
	for _, informer := range t.pods {
		for _, obj := range informer.GetStore().List() {
			t.follow(obj)
		}
	}
}

func (t *term) gone(exporter cache.ObjectName) {
	node, last := t.fleet.remove(exporter, time.Now())
	t.validator.ForgetExporter(node, exporter.String())
	if last {
		t.writes.Add(node)
	}
}
