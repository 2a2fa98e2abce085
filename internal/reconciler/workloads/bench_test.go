package workloads_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuledger/gpuledger/internal/reconciler/kubetest"
	reconcilerwatch "github.com/gpuledger/gpuledger/internal/reconciler/watch"
	"github.com/gpuledger/gpuledger/internal/reconciler/workloads"
	"github.com/gpuledger/gpuledger/internal/serve"
)

const (
	benchPods = 50_000
	podsOfJob = 8
)

func benchUID(kind string, i int) types.UID {
	return types.UID(fmt.Sprintf("%s-8b1f-4a53-9f0a-%012x", kind, i))
}

func benchJob(i int) *metav1.PartialObjectMetadata {
	job := object("batch/v1", "Job", fmt.Sprintf("team-%d", i%40), fmt.Sprintf("training-run-%d-workers", i), nil)
	job.UID = benchUID("0000000b", i)
	return job
}

func benchPod(i int) *corev1.Pod {
	job := benchJob(i / podsOfJob)
	p := gpuPod(fmt.Sprintf("%s-%d-x7k2p", job.Name, i%podsOfJob), "8", job)
	p.Namespace, p.UID, p.ResourceVersion = job.Namespace, benchUID("0000000a", i), fmt.Sprint(1000+i)
	p.Spec.NodeName = fmt.Sprintf("gpu-node-%04d.region.example", i%5000)
	for j := range 40 {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", j), Value: "a value of some length"})
	}
	for _, c := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(1.7e9, 0))})
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return p
}

type busy struct {
	*workloads.Workloads
	heap uint64 // number of bytes that the cluster added to the heap
}

func follow(b *testing.B) busy {
	b.Helper()
	before := heap()
	w := workloads.New(options(b, new(bytes.Buffer)), slog.New(slog.DiscardHandler))
	kube := kubetest.New()
	kube.Resources = []*metav1.APIResourceList{{GroupVersion: "batch/v1", APIResources: []metav1.APIResource{{Name: "jobs", Kind: "Job", Namespaced: true}}}}
	source := &cache.ListWatch{ListWithContextFunc: listPods, WatchFuncWithContext: watchNothing}
	informer := cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, cache.Indexers{})
	keep := func(obj any) (any, error) {
		p, ok := obj.(*corev1.Pod)
		if !ok {
			return obj, nil
		}
		kept, _ := w.Keep(p)
		return kept, nil
	}
	if err := informer.SetTransform(keep); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	b.Cleanup(cancel)
	go informer.RunWithContext(ctx)
	owners, failures := benchOwners(b), reconcilerwatch.New(slog.New(slog.DiscardHandler))
	go func() {
		_ = w.Run(ctx, workloads.Cluster{Watches: kube, Server: kube, Metadata: owners, Pods: informer, Failures: failures})
	}()
	for range time.Tick(100 * time.Millisecond) {
		if shown(b, w) == benchPods {
			break
		}
	}
	owners.ClearActions()
	return busy{w, heap() - before}
}

func listPods(context.Context, metav1.ListOptions) (kruntime.Object, error) {
	list := &corev1.PodList{Items: make([]corev1.Pod, benchPods)}
	for i := range list.Items {
		list.Items[i] = *benchPod(i)
	}
	return list, nil
}

func watchNothing(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents != nil {
		return nil, apierrors.NewBadRequest("a watch without a list")
	}
	return watch.NewFake(), nil
}

// benchOwners returns a fake client that creates each Job when the Job is requested. The object tracker of client-go
// would keep every Job and every request in memory, and would change the measured heap.
func benchOwners(b *testing.B) *metadatafake.FakeMetadataClient {
	b.Helper()
	c := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
	c.PrependReactor("get", "jobs", func(a clienttesting.Action) (bool, kruntime.Object, error) {
		var i int
		_, err := fmt.Sscanf(a.(clienttesting.GetAction).GetName(), "training-run-%d-workers", &i)
		return true, benchJob(i), err
	})
	return c
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func shown(b *testing.B, w *workloads.Workloads) int {
	b.Helper()
	var page bytes.Buffer
	if err := w.WritePage(&page); err != nil {
		b.Fatal(err)
	}
	return bytes.Count(page.Bytes(), []byte("\n"+info+"{"))
}

func BenchmarkKeep(b *testing.B) {
	w := workloads.New(options(b, new(bytes.Buffer)), slog.New(slog.DiscardHandler))
	p := benchPod(1)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := w.Keep(p); !ok {
			b.Fatal("a GPU pod is not kept")
		}
	}
}

func BenchmarkScrape(b *testing.B) {
	w := follow(b)
	handler := serve.NewMetrics(prometheus.NewRegistry(), slog.New(slog.DiscardHandler)).MainAfter(w.WritePage, w)
	b.Run("page", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if shown(b, w.Workloads) != benchPods {
				b.Fatal("pods are missing")
			}
		}
		b.ReportMetric(float64(w.heap)/benchPods, "heap-B/pod")
	})
	b.Run("gzip", func(b *testing.B) {
		request := httptest.NewRequest("GET", "/metrics", nil)
		request.Header.Set("Accept-Encoding", "gzip")
		for b.Loop() {
			response := httptest.NewRecorder()
			handler.ServeHTTP(response, request)
			if n, err := io.Copy(io.Discard, response.Body); err != nil || n < benchPods {
				b.Fatal(n, err)
			}
		}
	})
}
