//go:build e2e

package scale_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

type size struct{ nodes, pods int }

const (
	gpusPerNode     = 8
	podsPerWorkload = 25
	team            = "team-a"
	exporters       = "gpuledger" // namespace and name of the exporters' DaemonSet
)

var created = meta.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))

func nodeName(i int) string { return fmt.Sprintf("gpu-%05d", i) }

func numberOf(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil {
		panic(err)
	}
	return n
}

func uid(kind, i int) types.UID {
	return types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", kind, i))
}

func (s *server) node(i int) runtime.Object {
	s.mu.Lock()
	ours := s.applied[i]
	s.mu.Unlock()
	n := &core.Node{
		ObjectMeta: meta.ObjectMeta{
			Name: nodeName(i), UID: uid(1, i), ResourceVersion: strconv.Itoa(max(ours.version, 1)), CreationTimestamp: created,
			Labels: filler("node.example.com/feature-", 60), Annotations: filler("node.example.com/note-", 10),
			ManagedFields: []meta.ManagedFieldsEntry{managed("kubelet", strings.Repeat(`"f:feature":{},`, 200))},
		},
		Spec:   core.NodeSpec{ProviderID: "aws:///us-east-1a/i-" + nodeName(i)},
		Status: core.NodeStatus{Capacity: core.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpusPerNode, resource.DecimalSI)}},
	}
	n.Status.Allocatable = n.Status.Capacity
	for j := range 50 { // maximum number that a kubelet reports
		n.Status.Images = append(n.Status.Images, core.ContainerImage{
			Names: []string{fmt.Sprintf("registry.example.com/image-%d@sha256:%s", j, strings.Repeat("0", 64))}, SizeBytes: 1 << 30,
		})
	}
	maps.Copy(n.Labels, ours.labels)
	maps.Copy(n.Annotations, ours.annotations)
	if ours.labels != nil {
		n.ManagedFields = append(n.ManagedFields, managed("gpuledger", ours.fields()))
	}
	return n
}

// fields is in the format of managedFields.
func (a applied) fields() string {
	field := func(from map[string]string) map[string]any {
		all := map[string]any{}
		for key := range from {
			all["f:"+key] = map[string]any{}
		}
		return all
	}
	text, err := json.Marshal(map[string]any{"f:labels": field(a.labels), "f:annotations": field(a.annotations)})
	if err != nil {
		panic(err)
	}
	return `"f:metadata":` + string(text) + ","
}

// The argument fields may end with a comma.
func managed(manager, fields string) meta.ManagedFieldsEntry {
	return meta.ManagedFieldsEntry{
		Manager: manager, Operation: meta.ManagedFieldsOperationApply, APIVersion: "v1", Time: &created,
		FieldsType: "FieldsV1", FieldsV1: meta.NewFieldsV1("{" + strings.TrimSuffix(fields, ",") + "}"),
	}
}

// pod returns an exporter's pod for the first numbers, and a GPU pod for the following numbers.
func (s *server) pod(i int) runtime.Object {
	if i < s.cluster.nodes {
		return exporterPod(i)
	}
	return trainingPod(i-s.cluster.nodes, s.cluster.nodes)
}

func exporterPod(i int) *core.Pod {
	p := &core.Pod{
		ObjectMeta: meta.ObjectMeta{
			Namespace: exporters, Name: "gpuledger-" + nodeName(i), UID: uid(2, i), ResourceVersion: "1", CreationTimestamp: created,
			OwnerReferences: []meta.OwnerReference{*meta.NewControllerRef(daemonSet(), apps.SchemeGroupVersion.WithKind("DaemonSet"))},
		},
		Spec:   core.PodSpec{NodeName: nodeName(i), Containers: []core.Container{{Name: "gpuledger", Ports: []core.ContainerPort{{Name: "gpuledger", ContainerPort: exporterPort.Load()}}}}},
		Status: running("gpuledger"),
	}
	p.Status.PodIP = addressOf(i).String()
	return p
}

func trainingPod(i, nodes int) *core.Pod {
	workload := i / podsPerWorkload
	p := &core.Pod{
		ObjectMeta: meta.ObjectMeta{
			Namespace: team, Name: fmt.Sprintf("training-%05d-7d9f8c6b5d-%02d", workload, i%podsPerWorkload), UID: uid(3, i), ResourceVersion: "1", CreationTimestamp: created,
			Labels: filler("example.com/label-", 10), Annotations: filler("example.com/annotation-", 10),
			OwnerReferences: []meta.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: ownerName(workload), UID: uid(4, workload), Controller: new(true)}},
			ManagedFields:   []meta.ManagedFieldsEntry{managed("kube-controller-manager", strings.Repeat(`"f:field":{},`, 60)), managed("kubelet", strings.Repeat(`"f:field":{},`, 60))},
		},
		Spec: core.PodSpec{NodeName: nodeName(i % nodes), Containers: []core.Container{{
			Name: "train", Image: "registry.example.com/train:1",
			Resources: core.ResourceRequirements{Limits: core.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}, Requests: core.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}},
		}}},
		Status: running("train"),
	}
	for n := range 30 {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, core.EnvVar{Name: fmt.Sprintf("SETTING_%d", n), Value: strings.Repeat("v", 40)})
	}
	return p
}

func running(container string) core.PodStatus {
	status := core.PodStatus{
		Phase: core.PodRunning, HostIP: "10.0.0.1", PodIP: "10.0.0.1", StartTime: &created,
		ContainerStatuses: []core.ContainerStatus{{
			Name: container, Ready: true, Started: new(true), ContainerID: "containerd://" + strings.Repeat("0", 64),
			State: core.ContainerState{Running: &core.ContainerStateRunning{StartedAt: created}},
		}},
	}
	for _, condition := range []core.PodConditionType{core.PodScheduled, core.PodInitialized, core.ContainersReady, core.PodReady} {
		status.Conditions = append(status.Conditions, core.PodCondition{Type: condition, Status: core.ConditionTrue, LastTransitionTime: created})
	}
	return status
}

func ownerName(workload int) string { return fmt.Sprintf("training-%05d", workload) }

// The client reads only the metadata of the owners: a ReplicaSet and its Deployment.
func owner(resource, name string) *meta.PartialObjectMetadata {
	i := numberOf(name)
	o := &meta.PartialObjectMetadata{ObjectMeta: meta.ObjectMeta{Namespace: team, Name: name, UID: uid(5, i), ResourceVersion: "1", CreationTimestamp: created}}
	o.SetGroupVersionKind(meta.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	if resource == "replicasets" {
		o.UID = uid(4, i)
		o.OwnerReferences = []meta.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: name, UID: uid(5, i), Controller: new(true)}}
	}
	return o
}

func daemonSet() *apps.DaemonSet {
	return &apps.DaemonSet{ObjectMeta: meta.ObjectMeta{Namespace: exporters, Name: exporters, UID: uid(6, 0), ResourceVersion: "1"}}
}

func daemonSets() *apps.DaemonSetList { return &apps.DaemonSetList{} }

// filler represents the labels or annotations of other programs.
func filler(prefix string, n int) map[string]string {
	all := make(map[string]string)
	for i := range n {
		all[fmt.Sprintf("%s%d", prefix, i)] = "a-value-of-another-program"
	}
	return all
}
