//go:build e2e

package kubelet_test

import (
	"crypto/rand"
	"fmt"
	"strings"
)

type pod struct {
	name string
	// uid is optional. By default, the kubelet generates it from the manifest.
	uid        string
	containers []container
}

type container struct {
	name      string
	kind      kind
	gpus      int
	withChild bool              // the container runs two processes
	resources map[string]string // limits such as cpu, which determine the pod's QoS class
}

type kind int

const (
	ordinary      kind = iota
	initial            // an init container that ends before the others start
	nativeSidecar      // an init container that keeps running
)

const namespace = "research"

// fullName returns the name that the kubelet gives to a pod from a manifest.
func (p pod) fullName() string { return p.name + "-" + nodeName }

// The pod uses the host network, so no network plugin is needed.
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

// The pods in the tests include a pod with two containers, and a pod of every QoS class, because each class has its
// cgroups in another place. They also include both forms of UIDs. The kubelet generates 32 digits for a manifest, and
// the API server generates UUIDs.

// trainer returns a Burstable pod whose UID the kubelet generates.
func trainer() pod {
	return pod{name: unique("trainer"), containers: []container{
		{name: "main", gpus: 2, withChild: true, resources: map[string]string{"cpu": "200m"}},
		{name: "sidecar"},
	}}
}

func server() pod {
	return pod{name: unique("server"), uid: newUID(), containers: []container{
		{name: "main", gpus: 1, resources: map[string]string{"cpu": "100m", "memory": "64Mi"}},
	}}
}

func batch() pod {
	return pod{name: unique("batch"), uid: newUID(), containers: []container{{name: "main", gpus: 1}}}
}

// In the name of this pod's log link, there is only room for the first twenty digits of the container id.
func longName() pod {
	name := unique(strings.Repeat("long-", 30))
	rest := 251 - 20 - len(pod{name: name}.fullName()+"_"+namespace+"_-")
	return pod{name: name, uid: newUID(), containers: []container{
		{name: strings.Repeat("c", rest), gpus: 1},
	}}
}

// If a name were used again, the kubelet would delay the new pod until it has removed the earlier pod.
func unique(name string) string { return name + "-" + newUID()[:8] }

// newUID returns a UID in the format of the API server. It is new, because the kubelet never runs a second pod with the
// UID of an ended pod.
func newUID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // rand.Read never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
