package workloads_test

import (
	"bytes"
	"context"
	"flag"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/gpuledger/gpuledger/internal/reconciler/kubetest"
	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
	"github.com/gpuledger/gpuledger/internal/reconciler/workloads"
)

// world simulates a cluster with client-go's fakes in a synctest bubble. Its Workloads read this cluster.
type world struct {
	t      *testing.T
	kube   *kubetest.Client
	owners *metadatafake.FakeMetadataClient
	others *dynamicfake.FakeDynamicClient // local queues
	*workloads.Workloads
	events, log *bytes.Buffer
	logger      *slog.Logger
	stop        func()
}

var kinds = []struct {
	groupVersion, kind, resource string
	cluster                      bool
}{
	{"v1", "Pod", "pods", false},
	{"v1", "Node", "nodes", true},
	{"apps/v1", "ReplicaSet", "replicasets", false},
	{"apps/v1", "Deployment", "deployments", false},
	{"apps/v1", "StatefulSet", "statefulsets", false},
	{"batch/v1", "Job", "jobs", false},
	{"batch/v1", "CronJob", "cronjobs", false},
	{"jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets", false},
	{"leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets", false},
	{"kubeflow.org/v1", "PyTorchJob", "pytorchjobs", false},
	{"ray.io/v1", "RayCluster", "rayclusters", false},
	{"ray.io/v1", "RayJob", "rayjobs", false},
	{"ray.io/v1", "RayCronJob", "raycronjobs", false},
	{"grove.io/v1alpha1", "PodClique", "podcliques", false},
	{"grove.io/v1alpha1", "PodCliqueScalingGroup", "podcliquescalinggroups", false},
	{"grove.io/v1alpha1", "PodCliqueSet", "podcliquesets", false},
	{"nvidia.com/v1alpha1", "DynamoComponentDeployment", "dynamocomponentdeployments", false},
	{"nvidia.com/v1alpha1", "DynamoGraphDeployment", "dynamographdeployments", false},
	{"apps.nvidia.com/v1alpha1", "NIMService", "nimservices", false},
	{"apps.nvidia.com/v1alpha1", "NIMPipeline", "nimpipelines", false},
	{"apps.nvidia.com/v1alpha1", "NIMCache", "nimcaches", false},
	{"apps.nvidia.com/v1alpha1", "NIMBuild", "nimbuilds", false},
	{"tekton.dev/v1", "TaskRun", "taskruns", false},
	{"tekton.dev/v1", "PipelineRun", "pipelineruns", false},
	{"kubevirt.io/v1", "VirtualMachineInstance", "virtualmachineinstances", false},
	{"kubevirt.io/v1", "VirtualMachineInstanceReplicaSet", "virtualmachineinstancereplicasets", false},
	{"kubevirt.io/v1", "VirtualMachine", "virtualmachines", false},
	{"pool.kubevirt.io/v1beta1", "VirtualMachinePool", "virtualmachinepools", false},
	{"serving.knative.dev/v1", "Revision", "revisions", false},
	{"serving.knative.dev/v1", "Configuration", "configurations", false},
	{"serving.knative.dev/v1", "Service", "services", false},
	{"serving.kserve.io/v1beta1", "InferenceService", "inferenceservices", false},
	{"serving.kserve.io/v1alpha2", "LLMInferenceService", "llminferenceservices", false},
	{"kubeflow.org/v1beta1", "Trial", "trials", false},
	{"kubeflow.org/v1beta1", "Experiment", "experiments", false},
	{"slinky.slurm.net/v1beta1", "NodeSet", "nodesets", false},
	{"slinky.slurm.net/v1beta1", "LoginSet", "loginsets", false},
	{"workload.codeflare.dev/v1beta2", "AppWrapper", "appwrappers", false},
	{"sparkoperator.k8s.io/v1beta2", "SparkApplication", "sparkapplications", false},
	{"sparkoperator.k8s.io/v1beta2", "ScheduledSparkApplication", "scheduledsparkapplications", false},
	{"sparkoperator.k8s.io/v1alpha1", "SparkConnect", "sparkconnects", false},
	{"example.com/v1", "Fleet", "fleets", true},
	{"resource.k8s.io/v1", "ResourceClaim", "resourceclaims", false},
}

// newWorld returns a world with the given objects. It stores only the metadata of owners. The Workloads do not run yet.
func newWorld(t *testing.T, args []string, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{t: t, events: new(bytes.Buffer), log: new(bytes.Buffer)}
	var known, meta, others []runtime.Object
	for _, o := range objects {
		switch o.(type) {
		case *metav1.PartialObjectMetadata:
			meta = append(meta, o)
		case *unstructured.Unstructured:
			others = append(others, o)
		default:
			known = append(known, o)
		}
	}
	w.others = dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), others...)
	kubetest.RefuseStreams(&w.others.Fake)
	w.kube = kubetest.New(known...)
	for _, k := range kinds {
		w.serve(k.groupVersion, k.kind, k.resource, !k.cluster)
	}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w.owners = metadatafake.NewSimpleMetadataClient(scheme, meta...)
	w.logger = slog.New(slog.NewTextHandler(w.log, nil))
	w.Workloads = workloads.New(options(t, w.events, args...), w.logger)
	return w
}

func (w *world) serve(groupVersion, kind, resource string, namespaced bool) {
	w.kube.Lock()
	defer w.kube.Unlock()
	entry := metav1.APIResource{Name: resource, Kind: kind, Namespaced: namespaced, Verbs: metav1.Verbs{"get", "list", "watch"}}
	i := slices.IndexFunc(w.kube.Resources, func(l *metav1.APIResourceList) bool { return l.GroupVersion == groupVersion })
	if i < 0 {
		i = len(w.kube.Resources)
		w.kube.Resources = append(w.kube.Resources, &metav1.APIResourceList{GroupVersion: groupVersion})
	}
	w.kube.Resources[i].APIResources = append(w.kube.Resources[i].APIResources, entry)
}

func options(t testing.TB, events *bytes.Buffer, args ...string) workloads.Options {
	t.Helper()
	var o workloads.Options
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	o.Register(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	o.Output = events
	return o
}

// lead calls Run and waits until all goroutines are idle.
func (w *world) lead() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	informer := watch.Informer(w.kube.Pods(metav1.NamespaceAll), &corev1.Pod{})
	err := informer.SetTransform(func(obj any) (any, error) {
		if p, ok := obj.(*corev1.Pod); ok {
			if kept, ok := w.Keep(p); ok {
				return kept, nil
			}
		}
		return obj, nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	var g errgroup.Group
	g.Go(func() error { informer.RunWithContext(ctx); return nil })
	g.Go(func() error {
		return w.Run(ctx, workloads.Cluster{Watches: w.kube, Server: w.kube, Metadata: w.owners, Dynamic: w.others, Pods: informer, Failures: watch.New(w.logger)})
	})
	w.stop = func() {
		cancel()
		if err := g.Wait(); err != nil {
			w.t.Error(err)
		}
	}
	synctest.Wait()
}

func (w *world) page(names ...string) []string {
	w.t.Helper()
	// prometheus.Gatherers also checks names, types, UTF-8 and duplicates.
	families, err := prometheus.Gatherers{prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, done, err := w.Gather()
		done()
		return families, err
	}), prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		var page bytes.Buffer
		if err := w.WritePage(&page); err != nil {
			return nil, err
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		parsed, err := parser.TextToMetricFamilies(&page)
		return slices.Collect(maps.Values(parsed)), err
	})}.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	var lines []string
	for _, mf := range families {
		if len(names) > 0 && !slices.Contains(names, mf.GetName()) {
			continue
		}
		var text bytes.Buffer
		if _, err := expfmt.MetricFamilyToText(&text, mf); err != nil {
			w.t.Fatal(err)
		}
		for line := range strings.Lines(text.String()) {
			if !strings.HasPrefix(line, "#") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func (w *world) gets() int {
	n := 0
	for _, a := range w.owners.Actions() {
		if a.GetVerb() == "get" {
			n++
		}
	}
	return n
}

// object returns the metadata of an owner, with a UID derived from kind and name.
func object(apiVersion, kind, namespace, name string, controller *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(strings.ToLower(kind) + "-" + name)},
	}
	if controller != nil {
		o.OwnerReferences = ownedBy(controller)
	}
	return o
}

func ownedBy(o *metav1.PartialObjectMetadata) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(o, schema.FromAPIVersionAndKind(o.APIVersion, o.Kind))}
}

func gpuPod(name string, gpus string, controller *metav1.PartialObjectMetadata) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"},
		Spec:       corev1.PodSpec{NodeName: "gpu-node-1", Containers: []corev1.Container{asking("main", "nvidia.com/gpu", gpus)}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if controller != nil {
		p.OwnerReferences = ownedBy(controller)
	}
	return p
}
