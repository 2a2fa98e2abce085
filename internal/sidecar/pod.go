package sidecar

import (
	"bytes"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AMDContainers lists the container names of AMD's device plugin in its static manifest, in its manifest with health
// checks, and in its Helm chart.
var AMDContainers = []string{"amdgpu-dp-cntr", "amdgpu-dp-cntr-health", "amd-gpu-dp-cntr"}

// Pod contains the fields of a pod that determine the patch. Any client in the cluster can send JSON that is decoded
// into a Pod. Therefore a Pod must not need much more memory than the JSON text. In the Pod type of the Kubernetes API,
// a list of empty containers would need hundreds of times as much memory.
type Pod struct {
	Metadata struct {
		Annotations filled `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Volumes          filled   `json:"volumes"`
		Containers       []named  `json:"containers"`
		ImagePullSecrets []named  `json:"imagePullSecrets"`
		Affinity         affinity `json:"affinity"`
	} `json:"spec"`
}

type named struct {
	Name string `json:"name"`
}

type affinity struct {
	Node struct {
		Required struct {
			Terms []struct {
				Fields []struct {
					Key    string   `json:"key"`
					Values []string `json:"values"`
				} `json:"matchFields"`
			} `json:"nodeSelectorTerms"`
		} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
	} `json:"nodeAffinity"`
}

type filled bool

// UnmarshalJSON implements [json.Unmarshaler].
func (f *filled) UnmarshalJSON(text []byte) error {
	inner := bytes.TrimSpace(text[1:])
	*f = filled(len(inner) > 1 && !bytes.Equal(text, []byte("null")))
	return nil
}

// nodes returns the node names in the pod's affinity. The DaemonSet controller writes the name of the pod's node there.
func (p *Pod) nodes() []string {
	var names []string
	for _, term := range p.Spec.Affinity.Node.Required.Terms {
		for _, field := range term.Fields {
			if field.Key == metav1.ObjectNameField {
				names = append(names, field.Values...)
			}
		}
	}
	return names
}

func (p *Pod) isAMD() bool {
	return slices.ContainsFunc(p.Spec.Containers, func(c named) bool { return slices.Contains(AMDContainers, c.Name) })
}
