package sidecar_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/gpuledger/gpuledger/internal/sidecar"
)

// TestParse checks the parameters with the separators that docs/install.md describes.
func TestParse(t *testing.T) {
	got := sidecar.Parse(map[string]string{
		"image": "\tregistry.example.com/gpuledger:1\r\n", "arguments": "--a=b c\n\n  --d \r\n", "pullSecrets": "one, two\nthree,,four",
		"webSecret": " web ", "selinuxType": "spc_t\n", "nodes": "gpu-1,gpu-2 \n*", "another": "x",
	})
	want := sidecar.Parameters{
		Image: "registry.example.com/gpuledger:1", Arguments: []string{"--a=b c", "--d"}, PullSecrets: []string{"one", "two", "three", "four"},
		WebSecret: "web", SELinuxType: "spc_t", Nodes: []string{"gpu-1", "gpu-2", "*"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRefuse(t *testing.T) {
	all := map[string]string{"image": "i", "nodes": "*"}
	tests := []struct {
		name   string
		change map[string]string
		want   sidecar.Reason
	}{
		{"as it is", nil, ""},
		{"no image", map[string]string{"image": " \n"}, sidecar.NoImage},
		{"an image with a space", map[string]string{"image": "a b"}, sidecar.NoImage},
		{"an image with an invisible character", map[string]string{"image": "a\u200b"}, sidecar.NoImage},
		{"Secrets", map[string]string{"webSecret": "a-b.c", "pullSecrets": "0 z"}, ""},
		{"an invalid web Secret", map[string]string{"webSecret": "Web"}, sidecar.InvalidSecretName},
		{"an invalid pull Secret", map[string]string{"pullSecrets": "ok, a/b"}, sidecar.InvalidSecretName},
		{"a tab in a list", map[string]string{"pullSecrets": "a\tb"}, sidecar.InvalidSecretName},
		{"no nodes", map[string]string{"nodes": ""}, sidecar.NodeNotSelected},
		{"its node", map[string]string{"nodes": "gpu-2, gpu-1"}, ""},
		{"another node", map[string]string{"nodes": "gpu-2"}, sidecar.NodeNotSelected},
		{"a part of its name", map[string]string{"nodes": "gpu gpu-11"}, sidecar.NodeNotSelected},
	}
	pod := decode(t, &corev1.Pod{Spec: corev1.PodSpec{Affinity: onNode("gpu-1")}})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data := make(map[string]string)
			maps.Copy(data, all)
			maps.Copy(data, tt.change)
			parameters := sidecar.Parse(data)
			if got := parameters.Refuse(pod); got != tt.want {
				t.Errorf("reason %q, want %q", got, tt.want)
			}
		})
	}
}

func onNode(name string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name}},
		}}},
	}}}
}

// TestPatch checks that the patch adds lists and maps only if the pod lacks them. It must add the container after all
// volumes. test/e2e/deploy compares this patch with the patch of the policy.
func TestPatch(t *testing.T) {
	parameters := sidecar.Parse(map[string]string{"image": "i", "webSecret": "web", "pullSecrets": "a b"})
	tests := []struct {
		name    string
		pod     corev1.Pod
		first   []string // paths in the patch before the first volume
		secrets []string // last paths in the patch, and the values at these paths
		amd     bool
	}{
		{
			name:    "an empty pod",
			pod:     corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "nvidia-device-plugin-ctr"}}}},
			first:   []string{"/metadata/annotations", "/spec/volumes", "/metadata/annotations/gpuledger.io~1injected-by", "/spec/hostPID", "/metadata/annotations/nvidia.cdi.k8s.io~1container.gpuledger"},
			secrets: []string{"/spec/imagePullSecrets=[]", `/spec/imagePullSecrets/-={"name":"a"}`, `/spec/imagePullSecrets/-={"name":"b"}`},
		},
		{
			name: "AMD's pod with all lists and maps", amd: true,
			pod: corev1.Pod{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "x"}, {Name: "amdgpu-dp-cntr-health"}}, Volumes: []corev1.Volume{{Name: "v"}},
				ImagePullSecrets: []corev1.LocalObjectReference{{Name: "a"}},
			}},
			first:   []string{"/metadata/annotations/gpuledger.io~1injected-by", "/spec/hostPID"},
			secrets: []string{`/spec/imagePullSecrets/-={"name":"b"}`},
		},
	}
	tests[1].pod.Annotations = map[string]string{"example.com/a": "b"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var first, secrets []string
			container := false
			for _, o := range sidecar.Patch(decode(t, &tt.pod), &parameters) {
				value, err := json.Marshal(o.Value)
				check(t, err)
				switch {
				case o.Op != "add":
					t.Errorf("operation %s", o.Op)
				case strings.HasPrefix(o.Path, "/spec/imagePullSecrets"):
					secrets = append(secrets, o.Path+"="+string(value))
				case o.Path == "/spec/containers/-":
					container = true
					if got := strings.Contains(string(value), "NVIDIA"); got == tt.amd {
						t.Errorf("the container has NVIDIA's variables: %v", got)
					}
				case o.Path == "/spec/volumes/-":
					if container {
						t.Errorf("the volume %s is added after the container", value)
					}
				default:
					first = append(first, o.Path)
				}
			}
			if !slices.Equal(first, tt.first) || !slices.Equal(secrets, tt.secrets) || !container {
				t.Errorf("paths %q, secrets %q, container %v", first, secrets, container)
			}
		})
	}
}

// TestMemory checks that a hostile pod needs only a little more memory than its JSON.
func TestMemory(t *testing.T) {
	text := []byte(`{"spec": {"containers": [` + strings.Repeat("{},", 100_000) + `{}]}}`)
	result := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			var pod sidecar.Pod
			if err := json.Unmarshal(text, &pod); err != nil {
				b.Fatal(err)
			}
		}
	})
	if got := result.AllocedBytesPerOp(); got > int64(50*len(text)) {
		t.Errorf("decoding a text of %[2]d bytes allocated %[1]d bytes", got, len(text))
	}
}

func decode(t *testing.T, pod *corev1.Pod) *sidecar.Pod {
	t.Helper()
	text, err := json.Marshal(pod)
	check(t, err)
	var decoded sidecar.Pod
	check(t, json.Unmarshal(text, &decoded))
	return &decoded
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
