//go:build e2e

package kubelet_test

import (
	"crypto/rand"
	"fmt"
	"strings"
)

// pod is what a test wants to run.
type pod struct {
	name string
	// uid is made by the kubelet if empty, from the manifest.
	uid        string
	containers []container
}

// container is a container of a pod that a test wants.
type container struct {
	name      string
	kind      kind
	gpus      int
	withChild bool              // run two processes
	resources map[string]string // limits such as cpu; they decide the pod's QoS class
}

// kind is when a container runs.
type kind int

// The kinds of containers.
const (
	ordinary      kind = iota
	initial            // an init container, before the others
	nativeSidecar      // an init container that continues
)

// namespace is that of all pods.
const namespace = "research"

// fullName is how the kubelet names a pod of a manifest.
func (p pod) fullName() string { return p.name + "-" + nodeName }

// manifest returns a pod as Kubernetes spells it. It uses the node's own network, so
// that no network plugin is needed.
func (p pod) manifest() map[string]any {
	var ordinaries, inits []any
	for _, c := range p.containers {
		if c.kind == ordinary {
			ordinaries = append(ordinaries, c.manifest())
		} else {
			inits = append(inits, c.manifest())
		}
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": p.name, "namespace": namespace, "uid": p.uid},
		"spec": map[string]any{
			"hostNetwork": true, "restartPolicy": "Never", "terminationGracePeriodSeconds": 5,
			"initContainers": inits, "containers": ordinaries,
		},
	}
}

func (c container) manifest() map[string]any {
	limits := make(map[string]any)
	for name, amount := range c.resources {
		limits[name] = amount
	}
	if c.gpus > 0 {
		limits[resource] = c.gpus
	}
	m := map[string]any{
		"name": c.name, "image": workloadImage, "imagePullPolicy": "Never",
		"resources": map[string]any{"limits": limits},
	}
	if c.withChild {
		m["args"] = []string{"with-child"}
	}
	if c.kind == nativeSidecar {
		m["restartPolicy"] = "Always"
	}
	return m
}

// The pods of the tests: one with two containers, and one of every QoS class, which
// are different places among the cgroups; UIDs as the kubelet makes them for
// manifests (32 digits) and as the API server makes them (UUIDs).

// trainer is Burstable. Its UID comes from the kubelet.
func trainer() pod {
	return pod{name: unique("trainer"), containers: []container{
		{name: "main", gpus: 2, withChild: true, resources: map[string]string{"cpu": "200m"}},
		{name: "sidecar"},
	}}
}

// server is Guaranteed.
func server() pod {
	return pod{name: unique("server"), uid: newUID(), containers: []container{
		{name: "main", gpus: 1, resources: map[string]string{"cpu": "100m", "memory": "64Mi"}},
	}}
}

// batch is BestEffort.
func batch() pod {
	return pod{name: unique("batch"), uid: newUID(), containers: []container{{name: "main", gpus: 1}}}
}

// longName has names so long that its log link's name holds only the first twenty
// digits of the container's id.
func longName() pod {
	name := unique(strings.Repeat("long-", 30))
	rest := 251 - 20 - len(pod{name: name}.fullName()+"_"+namespace+"_-")
	return pod{name: name, uid: newUID(), containers: []container{
		{name: strings.Repeat("c", rest), gpus: 1},
	}}
}

// unique returns a name that no other pod has. The kubelet would hold a pod back
// until the last one of its name is forgotten.
func unique(name string) string { return name + "-" + newUID()[:8] }

// newUID returns a UID as the API server makes them. The kubelet never runs a pod
// again whose UID it saw end.
func newUID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // it never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
