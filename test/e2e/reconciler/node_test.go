//go:build e2e

package reconciler_test

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/internal/inventory"
)

// The exporters' pods belong to this DaemonSet, but the tests create them.
const (
	exporterNamespace = "kube-system"
	daemonSetName     = "nvidia-device-plugin-daemonset"
)

func exporterDaemonSet(namespace string) *apps.DaemonSet {
	labels := map[string]string{"name": "nvidia-device-plugin-ds"}
	return &apps.DaemonSet{
		ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: daemonSetName},
		Spec: apps.DaemonSetSpec{
			Selector: &meta.LabelSelector{MatchLabels: labels},
			Template: core.PodTemplateSpec{
				ObjectMeta: meta.ObjectMeta{Labels: labels},
				Spec:       core.PodSpec{Containers: []core.Container{{Name: "nvidia-device-plugin-ctr", Image: "plugin"}}},
			},
		},
	}
}

type node struct {
	*exporter
	t    testing.TB
	name string
	uid  types.UID
}

// newNode creates a Node with GPUs, its exporter, and the exporter's pod.
func newNode(t testing.TB, name string, serials ...string) *node {
	t.Helper()
	n := &node{exporter: newExporter(t), t: t, name: name}
	n.serves(page(name, boards(serials...)...))
	n.create(nil)
	n.createPod()
	return n
}

func (n *node) create(labels map[string]string) {
	n.t.Helper()
	object := &core.Node{
		ObjectMeta: meta.ObjectMeta{Name: n.name, Labels: labels},
		Spec:       core.NodeSpec{ProviderID: "aws:///us-east-1a/i-" + n.name},
	}
	nodes := world.Client.CoreV1().Nodes()
	created := must(nodes.Create(n.t.Context(), object, meta.CreateOptions{}))(n.t)
	n.uid = created.UID
	n.t.Cleanup(func() { _ = nodes.Delete(context.Background(), n.name, meta.DeleteOptions{}) })
	created.Status.Allocatable = core.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
	created.Status.Capacity = created.Status.Allocatable
	must(nodes.UpdateStatus(n.t.Context(), created, meta.UpdateOptions{}))(n.t)
}

func (n *node) podName() string { return "nvidia-device-plugin-" + n.name }

func (n *node) createPod() {
	n.t.Helper()
	pods := world.Client.CoreV1().Pods(exporterNamespace)
	pod := must(pods.Create(n.t.Context(), exporterPod(n.podName(), n.name, n.port), meta.CreateOptions{}))(n.t)
	n.t.Cleanup(func() { n.deletePod() })
	pod.Status = exporterStatus()
	must(pods.UpdateStatus(n.t.Context(), pod, meta.UpdateOptions{}))(n.t)
}

func (n *node) deletePod() {
	pods := world.Client.CoreV1().Pods(exporterNamespace)
	err := pods.Delete(context.Background(), n.podName(), meta.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	if err != nil && !apierrors.IsNotFound(err) {
		n.t.Error(err)
	}
}

// The exporter is a sidecar in the device plugin's pod.
func exporterPod(name, node string, port int32) *core.Pod {
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{
			Namespace: exporterNamespace, Name: name,
			OwnerReferences: []meta.OwnerReference{{
				APIVersion: "apps/v1", Kind: "DaemonSet", Name: daemonSetName, UID: world.daemonSet, Controller: new(true),
			}},
		},
		Spec: core.PodSpec{
			NodeName:                     node,
			AutomountServiceAccountToken: new(false),
			Containers: []core.Container{
				{Name: "nvidia-device-plugin-ctr", Image: "plugin"},
				{Name: "gpuledger", Image: "gpuledger", Ports: []core.ContainerPort{{Name: "gpuledger", ContainerPort: port}}},
			},
		},
	}
}

func exporterStatus() core.PodStatus {
	started := meta.Now()
	running := core.ContainerState{Running: &core.ContainerStateRunning{StartedAt: started}}
	return core.PodStatus{
		Phase: core.PodRunning, HostIP: "127.0.0.1", PodIP: "127.0.0.1", PodIPs: []core.PodIP{{IP: "127.0.0.1"}}, StartTime: &started,
		Conditions: []core.PodCondition{
			{Type: core.PodReady, Status: core.ConditionTrue, LastTransitionTime: started},
			{Type: core.ContainersReady, Status: core.ConditionTrue, LastTransitionTime: started},
		},
		ContainerStatuses: []core.ContainerStatus{
			{Name: "nvidia-device-plugin-ctr", Ready: true, Started: new(true), State: running, ContainerID: "containerd://1"},
			{Name: "gpuledger", Ready: true, Started: new(true), State: running, ContainerID: "containerd://2"},
		},
	}
}

// object returns nil if the Node does not exist.
func (n *node) object() *core.Node {
	n.t.Helper()
	object, err := world.Client.CoreV1().Nodes().Get(n.t.Context(), n.name, meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	check(n.t, err)
	return object
}

// labels returns only labels with our prefix, and removes the prefix.
func (n *node) labels() map[string]string {
	n.t.Helper()
	labels := map[string]string{}
	if object := n.object(); object != nil {
		for key, value := range object.Labels {
			if name, ours := strings.CutPrefix(key, "gpuledger.io/"); ours {
				labels[name] = value
			}
		}
	}
	return labels
}

// patch uses another field manager, like another client.
func (n *node) patch(body string) {
	n.t.Helper()
	must(world.Client.CoreV1().Nodes().Patch(n.t.Context(), n.name, types.MergePatchType, []byte(body), meta.PatchOptions{FieldManager: "somebody"}))(n.t)
}

// awaitLabels waits until the Node has exactly these labels with our prefix.
func (n *node) awaitLabels(want map[string]string) {
	n.t.Helper()
	got := map[string]string{}
	n.t.Cleanup(func() {
		if n.t.Failed() {
			n.t.Logf("last labels of %s: %v", n.name, got)
		}
	})
	eventually(n.t, "the labels of "+n.name+" are right", func() bool {
		got = n.labels()
		return maps.Equal(got, want)
	})
}

// serials returns the labels for these serial numbers, in the order of the boards' PCI addresses.
func serials(serials ...string) map[string]string { return labelsOf(boards(serials...)) }

func labelsOf(gpus []inventory.GPU) map[string]string {
	labels := map[string]string{"gpu-count": strconv.Itoa(len(gpus))}
	for i, g := range gpus {
		labels["gpu-"+strconv.Itoa(i)] = g.Serial
	}
	return labels
}
