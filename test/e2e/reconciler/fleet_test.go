//go:build e2e

package reconciler_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/inventory"
)

const (
	gpusPerNode     = 8
	podsPerWorkload = 25
)

type fleet struct {
	ports []int32 // port of each node's exporter
}

func nodeName(i int) string { return fmt.Sprintf("gpu-%05d", i) }

// newFleet creates nodes with exporters, and running GPU pods. Half of the pods belong to ReplicaSets of Deployments.
// The other half belongs to Jobs of CronJobs. No controller changes these objects.
func newFleet(b *testing.B, nodes, pods int) {
	b.Helper()
	f := &fleet{ports: serveExporters(b, nodes)}
	must(world.Client.CoreV1().Namespaces().Create(b.Context(), &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: team}}, meta.CreateOptions{}))(b)
	for _, namespace := range []string{team, exporterNamespace} {
		eventually(b, "the namespace has its service account", func() bool {
			_, err := world.Client.CoreV1().ServiceAccounts(namespace).Get(b.Context(), "default", meta.GetOptions{})
			return err == nil
		})
	}
	owners := make([]meta.OwnerReference, (pods+podsPerWorkload-1)/podsPerWorkload)
	check(b, parallel(b.Context(), len(owners), func(ctx context.Context, i int) (err error) {
		owners[i], err = createWorkload(ctx, i)
		return err
	}))
	check(b, parallel(b.Context(), nodes, f.createNode))
	check(b, parallel(b.Context(), pods, func(ctx context.Context, i int) error {
		return createPod(ctx, trainingPod(i, nodeName(i%nodes), owners[i/podsPerWorkload]), runningStatus())
	}))
}

func parallel(ctx context.Context, n int, do func(context.Context, int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(32)
	for i := range n {
		g.Go(func() error { return do(ctx, i) })
	}
	return g.Wait()
}

// serveExporters serves all inventories from one server. The port of a request identifies the node.
func serveExporters(b *testing.B, nodes int) (ports []int32) {
	b.Helper()
	nodeAt := make(map[int]int) // names of the nodes, by port
	var listeners []net.Listener
	for i := range nodes {
		l := must(net.Listen("tcp", "127.0.0.1:0"))(b)
		port := l.Addr().(*net.TCPAddr).Port
		listeners, ports = append(listeners, l), append(ports, int32(port))
		nodeAt[port] = i
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		serves(fleetPage(nodeAt[at.Port]))(w, r)
	})}
	for _, l := range listeners {
		go func() { _ = server.Serve(l) }() // returns when the server is closed
	}
	b.Cleanup(func() { _ = server.Close() })
	return ports
}

// The inventory is as in an NVL72 rack, which has 18 trays in a chassis.
func fleetPage(i int) inventory.Page {
	p := page(nodeName(i))
	for n := range gpusPerNode {
		p.GPUs = append(p.GPUs, inventory.GPU{Present: true, Device: gpu.Device{
			UUID: fmt.Sprintf("GPU-%08x-0000-4000-8000-%012x", i, n), Index: n, DeviceNode: fmt.Sprintf("nvidia%d", n),
			Serial: fmt.Sprintf("16%05d%04d", i, n), PCIBusID: fmt.Sprintf("00000000:%02X:00.0", 0x10+n),
			Vendor: "nvidia", Model: "NVIDIA B200", BoardPartNumber: "900-2G548-0000-000", VBIOSVersion: "97.00.52.00.0C",
			Platform: gpu.Platform{ChassisSerial: fmt.Sprintf("18%07d", i/18), Slot: new(i % 18), Tray: new(i % 18)},
		}})
	}
	return p
}

// createWorkload creates a workload with two levels of owners, and returns the owner reference for its pods.
func createWorkload(ctx context.Context, i int) (meta.OwnerReference, error) {
	name := fmt.Sprintf("training-%05d", i)
	if i%2 == 0 {
		return createDeployment(ctx, name)
	}
	return createCronJob(ctx, name)
}

func createDeployment(ctx context.Context, name string) (meta.OwnerReference, error) {
	selector := &meta.LabelSelector{MatchLabels: map[string]string{"app": "training"}}
	template := asksForGPU("1", core.RestartPolicyAlways)
	root, err := world.Client.AppsV1().Deployments(team).Create(ctx, &apps.Deployment{
		ObjectMeta: meta.ObjectMeta{Name: name}, Spec: apps.DeploymentSpec{Selector: selector, Template: template},
	}, meta.CreateOptions{})
	if err != nil {
		return meta.OwnerReference{}, err
	}
	set, err := world.Client.AppsV1().ReplicaSets(team).Create(ctx, &apps.ReplicaSet{
		ObjectMeta: meta.ObjectMeta{Name: name, OwnerReferences: []meta.OwnerReference{*meta.NewControllerRef(root, apps.SchemeGroupVersion.WithKind("Deployment"))}},
		Spec:       apps.ReplicaSetSpec{Selector: selector, Template: template},
	}, meta.CreateOptions{})
	if err != nil {
		return meta.OwnerReference{}, err
	}
	return *meta.NewControllerRef(set, apps.SchemeGroupVersion.WithKind("ReplicaSet")), nil
}

func createCronJob(ctx context.Context, name string) (meta.OwnerReference, error) {
	spec := batch.JobSpec{Template: asksForGPU("1", core.RestartPolicyNever)}
	root, err := world.Client.BatchV1().CronJobs(team).Create(ctx, &batch.CronJob{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Spec:       batch.CronJobSpec{Schedule: "0 3 * * *", JobTemplate: batch.JobTemplateSpec{Spec: spec}},
	}, meta.CreateOptions{})
	if err != nil {
		return meta.OwnerReference{}, err
	}
	job, err := world.Client.BatchV1().Jobs(team).Create(ctx, &batch.Job{
		ObjectMeta: meta.ObjectMeta{Name: name, OwnerReferences: []meta.OwnerReference{*meta.NewControllerRef(root, batch.SchemeGroupVersion.WithKind("CronJob"))}},
		Spec:       spec,
	}, meta.CreateOptions{})
	if err != nil {
		return meta.OwnerReference{}, err
	}
	return *meta.NewControllerRef(job, batch.SchemeGroupVersion.WithKind("Job")), nil
}

func (f *fleet) createNode(ctx context.Context, i int) error {
	name := nodeName(i)
	node, err := world.Client.CoreV1().Nodes().Create(ctx, &core.Node{
		ObjectMeta: meta.ObjectMeta{Name: name, Labels: filler("node.example.com/feature-", 60), Annotations: filler("node.example.com/note-", 10)},
		Spec:       core.NodeSpec{ProviderID: "aws:///us-east-1a/i-" + name},
	}, meta.CreateOptions{})
	if err != nil {
		return err
	}
	node.Status.Allocatable = core.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpusPerNode, resource.DecimalSI)}
	node.Status.Capacity = node.Status.Allocatable
	for i := range 50 { // maximum number that a kubelet reports
		node.Status.Images = append(node.Status.Images, core.ContainerImage{
			Names: []string{fmt.Sprintf("registry.example.com/image-%d@sha256:%s", i, strings.Repeat("0", 64))}, SizeBytes: 1 << 30,
		})
	}
	if _, err := world.Client.CoreV1().Nodes().UpdateStatus(ctx, node, meta.UpdateOptions{}); err != nil {
		return err
	}
	return createPod(ctx, exporterPod("nvidia-device-plugin-"+name, name, f.ports[i]), exporterStatus())
}

// createPod sets the pod's status, as a kubelet does.
func createPod(ctx context.Context, pod *core.Pod, status core.PodStatus) error {
	created, err := world.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, meta.CreateOptions{})
	if err != nil {
		return err
	}
	created.Status = status
	_, err = world.Client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, created, meta.UpdateOptions{})
	return err
}

func trainingPod(i int, node string, owner meta.OwnerReference) *core.Pod {
	pod := &core.Pod{
		ObjectMeta: meta.ObjectMeta{
			Namespace: team, Name: fmt.Sprintf("%s-%02d", owner.Name, i%podsPerWorkload), OwnerReferences: []meta.OwnerReference{owner},
			Labels: filler("example.com/label-", 10), Annotations: filler("example.com/annotation-", 10),
		},
		Spec: asksForGPU("1", core.RestartPolicyAlways).Spec,
	}
	pod.Spec.NodeName = node
	for n := range 30 {
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, core.EnvVar{Name: fmt.Sprintf("SETTING_%d", n), Value: strings.Repeat("v", 40)})
	}
	return pod
}

func runningStatus() core.PodStatus {
	started := meta.Now()
	status := core.PodStatus{
		Phase: core.PodRunning, HostIP: "127.0.0.1", PodIP: "127.0.0.1", PodIPs: []core.PodIP{{IP: "127.0.0.1"}}, StartTime: &started,
		ContainerStatuses: []core.ContainerStatus{{
			Name: "train", Ready: true, Started: new(true), ContainerID: "containerd://" + strings.Repeat("0", 64),
			State: core.ContainerState{Running: &core.ContainerStateRunning{StartedAt: started}},
		}},
	}
	for _, condition := range []core.PodConditionType{core.PodScheduled, core.PodInitialized, core.ContainersReady, core.PodReady} {
		status.Conditions = append(status.Conditions, core.PodCondition{Type: condition, Status: core.ConditionTrue, LastTransitionTime: started})
	}
	return status
}

// filler represents the labels or annotations of other programs.
func filler(prefix string, n int) map[string]string {
	all := make(map[string]string)
	for i := range n {
		all[fmt.Sprintf("%s%d", prefix, i)] = "some-value-that-somebody-needs"
	}
	return all
}
