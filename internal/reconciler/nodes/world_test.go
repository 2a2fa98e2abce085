package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/health"
	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/internal/nodelabel"
	"github.com/gpuledger/gpuledger/internal/reconciler/exporter"
	"github.com/gpuledger/gpuledger/internal/reconciler/kubetest"
	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
)

// world is a cluster in memory, with one exporter on each Node, for tests in a synctest bubble.
type world struct {
	t     *testing.T
	kube  *kubetest.Client
	opts  Options
	logs  *strings.Builder
	lease lease
	// listPodsAfter is the time between the start of a term and the first list of pods.
	listPodsAfter time.Duration

	mu     sync.Mutex
	pages  map[string]inventory.Page // inventory page by Node
	health map[string]health.Page    // health page by Node
	hangs  map[string]bool           // Nodes with an exporter that does not respond
	read   map[string]time.Time      // time of the last response, by Node
	reads  int
}

var worldDaemonSet = exporter.DaemonSet{Namespace: "gpuledger", Name: "gpuledger"}

const worldDaemonSetUID = "d1"

func newWorld(t *testing.T) *world {
	opts := *testOptions(nodelabel.Own, nodelabel.OwnPrefix)
	opts.Exporters.DaemonSets = map[exporter.DaemonSet]struct{}{worldDaemonSet: {}}
	opts.Exporters.Timeout = 5 * time.Second
	opts.Resync, opts.Confirm, opts.LabelTTL = 10*time.Minute, 10*time.Second, 24*time.Hour
	opts.Concurrency, opts.Rate, opts.Writes = 16, 200, 20
	w := &world{
		t: t, kube: kubetest.New(), opts: opts, logs: &strings.Builder{},
		pages: make(map[string]inventory.Page), health: make(map[string]health.Page), hangs: make(map[string]bool), read: make(map[string]time.Time),
	}
	w.createDaemonSet(worldDaemonSetUID)
	return w
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) createDaemonSet(uid types.UID) {
	w.t.Helper()
	w.check(w.kube.Tracker().Add(&appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: worldDaemonSet.Namespace, Name: worldDaemonSet.Name, UID: uid},
	}))
}

func (w *world) createNode(name string, uid types.UID) { w.create(gpuNode(name, uid)) }

func (w *world) create(n *corev1.Node) {
	w.t.Helper()
	w.check(w.kube.Tracker().Add(n))
}

func gpuNode(name string, uid types.UID) *corev1.Node {
	n := bareNode(name, uid)
	n.Status.Capacity = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
	return n
}

func bareNode(name string, uid types.UID) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
}

func (w *world) createPod(node string, daemonSet types.UID) {
	w.t.Helper()
	w.check(w.kube.Tracker().Add(exporterOn(node, daemonSet)))
}

func exporterOn(node string, daemonSet types.UID) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: worldDaemonSet.Namespace, Name: "exporter-" + node, UID: types.UID("pod-" + node),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: worldDaemonSet.Name, UID: daemonSet, Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "gpuledger"}}},
		Status: corev1.PodStatus{PodIP: "10.0.0.1", ContainerStatuses: []corev1.ContainerStatus{
			{Name: "gpuledger", Ready: true, ContainerID: "containerd://1"},
		}},
	}
}

func (w *world) createExporter(node string) {
	w.t.Helper()
	w.createNode(node, types.UID("uid-"+node))
	w.createPod(node, worldDaemonSetUID)
	w.setSerial(node, node+"-1")
}

func (w *world) setSerial(node, serial string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pages[node] = inventory.Page{
		Version: inventory.Version, DriverUp: true, Node: gpu.Node{Name: node},
		GPUs: []inventory.GPU{{Present: true, Device: gpu.Device{UUID: "GPU-" + serial, Serial: serial, Vendor: "nvidia", PCIBusID: "00000000:10:00.0"}}},
	}
}

// Read responds after a millisecond, or returns at the timeout if the exporter hangs.
func (w *world) Read(ctx context.Context, t exporter.Target) (inventory.Page, error) {
	w.mu.Lock()
	page, hangs := w.pages[t.Node], w.hangs[t.Node]
	w.mu.Unlock()
	answer := time.Millisecond
	if hangs {
		answer = w.opts.Exporters.Timeout
	}
	select {
	case <-ctx.Done():
		return inventory.Page{}, ctx.Err()
	case <-time.After(answer):
	}
	if hangs {
		return inventory.Page{}, fmt.Errorf("%w in time", exporter.ErrUnreachable)
	}
	page.Time = time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read[t.Node] = page.Time
	w.reads++
	return page, nil
}

// ReadHealth responds immediately, or returns at the timeout if the exporter hangs.
func (w *world) ReadHealth(ctx context.Context, t exporter.Target) (health.Page, error) {
	w.mu.Lock()
	page, ok := w.health[t.Node]
	hangs := w.hangs[t.Node]
	w.mu.Unlock()
	if hangs {
		select {
		case <-ctx.Done():
		case <-time.After(w.opts.Exporters.Timeout):
		}
	}
	if !ok || hangs {
		return health.Page{}, exporter.ErrUnreachable
	}
	return page, nil
}

func (w *world) readSince(at time.Time) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var nodes []string
	for node, last := range w.read {
		if !last.Before(at) {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

func (w *world) term(pods cache.SharedIndexInformer) *term {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(w.logs, nil))
	trm, err := newTerm(w.opts, Cluster{Watches: w.kube, Kube: w.kube, Pods: []cache.SharedIndexInformer{pods}, Record: &w.lease, Failures: watch.New(log)}, w, newCounts(), log)
	w.check(err)
	return trm
}

// lead runs a term until the returned function is called.
func (w *world) lead() (*term, func()) {
	w.t.Helper()
	pods := watch.Informer(w.kube.Pods(worldDaemonSet.Namespace), &corev1.Pod{})
	w.check(pods.SetTransform(func(obj any) (any, error) {
		if pod, ok := obj.(*corev1.Pod); ok {
			return w.opts.Exporters.Keep(pod), nil
		}
		return obj, nil
	}))
	trm := w.term(pods)
	ctx, cancel := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		<-time.After(w.listPodsAfter)
		pods.RunWithContext(ctx)
	})
	running.Go(func() {
		if err := trm.run(ctx); err != nil {
			w.t.Error(err)
		}
	})
	return trm, func() {
		cancel()
		running.Wait()
	}
}

func (w *world) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (w *world) labels(node string) map[string]string {
	w.t.Helper()
	n, err := w.kube.Nodes().Get(w.t.Context(), node, metav1.GetOptions{})
	w.check(err)
	labels := make(map[string]string)
	for key, value := range n.Labels {
		if name, ours := strings.CutPrefix(key, nodelabel.OwnPrefix+"/"); ours {
			labels[name] = value
		}
	}
	return labels
}

// labelled returns the Nodes whose label gpu-0 contains the given version of the Node's board.
func (w *world) labelled(nodes []string, version string) []string {
	w.t.Helper()
	return slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return w.labels(n)["gpu-0"] != n+version })
}
