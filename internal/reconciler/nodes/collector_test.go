package nodes_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuledger/gpuledger/internal/reconciler/kubetest"
	"github.com/gpuledger/gpuledger/internal/reconciler/nodes"
	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
)

// strange is a page from an exporter on another node.
const strange = `{"version":1,"time":"2026-03-01T12:00:00Z","driver_up":true,"node":{"node":"elsewhere"},"gpus":[]}`

// objects returns a Node that has GPUs according to all sources, its exporter's pod, and its ResourceSlice.
func objects(t *testing.T, address string) (*corev1.Node, *corev1.Pod, *resourcev1.ResourceSlice) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-node-17", UID: "u1", Labels: map[string]string{"nvidia.com/gpu.present": "true"}},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-0a1b2c3d4e5f60718"},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")},
			NodeInfo:    corev1.NodeSystemInfo{SystemUUID: "4c4c4544-0051-3810-8056-b4c04f4a3332"},
		},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "gpuledger", Name: "gpuledger-x7q2", UID: "p1",
			OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "gpuledger", UID: "d1", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: "gpu-node-17", Containers: []corev1.Container{
			{Name: "gpuledger", Ports: []corev1.ContainerPort{{Name: "gpuledger", ContainerPort: int32(n)}}},
		}},
		Status: corev1.PodStatus{PodIP: host, ContainerStatuses: []corev1.ContainerStatus{{Name: "gpuledger", Ready: true}}},
	}
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "s1"},
		Spec:       resourcev1.ResourceSliceSpec{Driver: "gpu.nvidia.com", NodeName: new("gpu-node-17")},
	}
	return node, pod, slice
}

type shape struct {
	Type, Help string
	Labels     []string
}

func TestCatalogueMatchesPage(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strange) }))
	defer server.Close()
	node, pod, slice := objects(t, server.Listener.Addr().String())
	owner := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "gpuledger", Name: "gpuledger", UID: "d1"}}
	kube := kubetest.New(node, pod, slice, owner)
	kube.Resources = []*metav1.APIResourceList{{
		GroupVersion: resourcev1.SchemeGroupVersion.String(), APIResources: []metav1.APIResource{{Name: "resourceslices"}},
	}}

	labels := nodes.New(options(t), slog.New(slog.DiscardHandler))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(labels)
	before := gather(t, registry)
	for name, s := range before {
		if s.Type != "counter" {
			t.Errorf("%s is served without a leader", name)
		}
	}

	pods := watch.Informer(kube.Pods(metav1.NamespaceAll), &corev1.Pod{})
	if err := pods.SetTransform(func(obj any) (any, error) { return labels.Keep(obj.(*corev1.Pod)), nil }); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go pods.RunWithContext(ctx)
	go func() {
		ended <- labels.Run(ctx, nodes.Cluster{Watches: kube, Kube: kube, Pods: []cache.SharedIndexInformer{pods}, Failures: watch.New(slog.New(slog.DiscardHandler))})
	}()
	want := make(map[string]shape)
	for _, m := range nodes.Catalogue() {
		want[m.Name] = shape{m.TypeName(), m.Help, slices.Sorted(slices.Values(m.Labels))}
	}
	got := gather(t, registry)
	for deadline := time.Now().Add(5 * time.Minute); len(got) < len(want) && time.Now().Before(deadline); got = gather(t, registry) {
		<-time.After(10 * time.Millisecond)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("page differs from the catalogue (-catalogue +page):\n%s", diff)
	}
	if problems, err := promlint.NewWithMetricFamilies(families(t, registry)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", err, problems)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, gather(t, registry)); diff != "" {
		t.Errorf("page before and after the term (-before +after):\n%s", diff)
	}
}

func options(t *testing.T) nodes.Options {
	t.Helper()
	o := nodes.Options{Resources: regexp.MustCompile("^nvidia.com/")}
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	o.Register(fs)
	if err := errors.Join(fs.Parse(nil), o.Validate()); err != nil {
		t.Fatal(err)
	}
	return o
}

func families(t *testing.T, g prometheus.Gatherer) []*dto.MetricFamily {
	t.Helper()
	all, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func gather(t *testing.T, g prometheus.Gatherer) map[string]shape {
	t.Helper()
	shapes := make(map[string]shape)
	for _, mf := range families(t, g) {
		s := shape{Type: strings.ToLower(mf.GetType().String()), Help: mf.GetHelp()}
		for _, l := range mf.Metric[0].Label {
			s.Labels = append(s.Labels, l.GetName())
		}
		shapes[mf.GetName()] = s
	}
	return shapes
}

func TestLabelsAreDescribed(t *testing.T) {
	used, described := make(map[string]bool), make(map[string]bool)
	for _, m := range nodes.Catalogue() {
		for _, l := range m.Labels {
			used[l] = true
		}
	}
	for _, l := range nodes.Labels() {
		described[l.Name] = true
	}
	if diff := cmp.Diff(used, described); diff != "" {
		t.Errorf("labels (-used +described):\n%s", diff)
	}
}
