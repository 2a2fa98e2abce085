package nodes

import (
	"log/slog"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuledger/gpuledger/internal/reconciler/apiserver"
	"github.com/gpuledger/gpuledger/internal/reconciler/exporter"
	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
)

// daemonSets contains the UIDs of the listed DaemonSets. A user can write any owner reference into a pod, so a pod
// counts as an exporter only if its owner reference contains one of these UIDs. daemonSets is safe for concurrent use.
type daemonSets struct {
	informers []cache.SharedIndexInformer // one informer for each listed DaemonSet
	log       *slog.Logger

	mu sync.Mutex
	// uids contains the UID of each listed DaemonSet. The UID is empty if the DaemonSet does not exist.
	uids map[exporter.DaemonSet]types.UID
	// reported is set after the first list, when reportMissing has logged all missing DaemonSets. Later changes are
	// logged when they happen.
	reported bool
}

func newDaemonSets(kube apiserver.Client, o exporter.Options, failures *watch.Failures, log *slog.Logger) *daemonSets {
	d := &daemonSets{log: log, uids: make(map[exporter.DaemonSet]types.UID)}
	for listed := range o.DaemonSets {
		informer := watch.Informer(kube.DaemonSets(listed.Namespace), &appsv1.DaemonSet{}, watch.Named(listed.Name))
		_ = informer.SetTransform(trimDaemonSet) // the call fails only for a running informer
		failures.Follow(informer, watch.DaemonSets)
		d.informers = append(d.informers, informer)
		d.uids[listed] = ""
	}
	return d
}

func trimDaemonSet(obj any) (any, error) {
	from, ok := obj.(*appsv1.DaemonSet)
	if !ok {
		return obj, nil
	}
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: from.Namespace, Name: from.Name, UID: from.UID, ResourceVersion: from.ResourceVersion,
	}}, nil
}

// owns reports whether the target's DaemonSet exists and has the UID in the target.
func (d *daemonSets) owns(t exporter.Target) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	uid := d.uids[t.DaemonSet]
	return uid != "" && uid == t.DaemonSetUID
}

// set stores the UID of a DaemonSet, or an empty UID after its deletion. It reports whether the UID changed.
func (d *daemonSets) set(namespace, name string, uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := exporter.DaemonSet{Namespace: namespace, Name: name}
	old, listed := d.uids[key]
	if !listed || old == uid {
		return false
	}
	d.uids[key] = uid
	if d.reported && uid == "" {
		d.logMissing(key)
	} else if d.reported {
		d.log.Info("daemonset found", "namespace", namespace, "name", name)
	}
	return true
}

// reportMissing logs the DaemonSets in --exporter.daemonsets that do not exist. It is called after the first list.
func (d *daemonSets) reportMissing() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reported = true
	for key, uid := range d.uids {
		if uid == "" {
			d.logMissing(key)
		}
	}
}

func (d *daemonSets) logMissing(key exporter.DaemonSet) {
	d.log.Warn("daemonset named by --exporter.daemonsets not found, ignoring pods that name it as their owner", "namespace", key.Namespace, "name", key.Name)
}
