//go:build kyverno

package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const kyvernoEnv = "GPULEDGER_E2E_KYVERNO"

// TestKyverno checks the example with Kyverno's command-line program. The example must add the same container as the
// kustomize patch to a pod of the device plugin. It must not change pods on nodes that are not selected, or pods that a
// user other than the DaemonSet controller created. If the ConfigMap contains no image, it must change no pod.
func TestKyverno(t *testing.T) {
	text, err := os.ReadFile(manifests + "components/sidecar/container.yaml")
	check(t, err)
	var patch []struct{ Value corev1.Container }
	check(t, yaml.Unmarshal(text, &patch))
	const controller = "system:serviceaccount:kube-system:daemon-set-controller"
	for name, tt := range map[string]struct {
		node, user, image string
		want              bool
	}{
		"chosen node":  {"gpu-1", controller, patch[0].Value.Image, true},
		"other node":   {"gpu-2", controller, patch[0].Value.Image, false},
		"other user":   {"gpu-1", "system:admin", patch[0].Value.Image, false},
		"without name": {"gpu-1", controller, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := applyKyverno(t, tt.node, tt.user, tt.image)
			if !tt.want {
				if len(pod.Spec.Containers) != 1 || pod.Spec.HostPID {
					t.Errorf("the pod was changed: %+v", pod.Spec)
				}
				return
			}
			if len(pod.Spec.Containers) != 2 {
				t.Fatalf("%d containers, want 2", len(pod.Spec.Containers))
			}
			if diff := cmp.Diff(patch[0].Value, pod.Spec.Containers[1]); diff != "" || !pod.Spec.HostPID {
				t.Errorf("container (-by kustomize +by Kyverno), host's process ids %v:\n%s", pod.Spec.HostPID, diff)
			}
			if got := pod.Annotations["gpuledger.io/injected-by"]; got != "MutatingPolicy gpuledger" {
				t.Errorf("the annotation injected-by is %q", got)
			}
		})
	}
}

// applyKyverno returns a pod of the device plugin after Kyverno has changed it. The given user creates the pod for the
// given node. The ConfigMap selects only the node gpu-1.
func applyKyverno(t *testing.T, node, user, image string) (pod corev1.Pod) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"pod": fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: plugin-x, namespace: gpu-operator, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: plugin, uid: u, controller: true}]}
spec:
  containers: [{name: nvidia-device-plugin, image: plugin}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [%s]}]}]}}}
`, node),
		"context": fmt.Sprintf(`apiVersion: cli.kyverno.io/v1alpha1
kind: Context
metadata: {name: context}
spec: {resources: [{apiVersion: v1, kind: ConfigMap, metadata: {name: gpuledger-sidecar, namespace: gpuledger}, data: {image: %q, nodes: gpu-1}}]}
`, image),
		"user": fmt.Sprintf("apiVersion: cli.kyverno.io/v1alpha1\nkind: UserInfo\nmetadata: {name: user}\nuserInfo: {username: %q}\n", user),
	} {
		check(t, os.WriteFile(filepath.Join(folder, name+".yaml"), []byte(text), 0o600))
	}
	policy, err := filepath.Abs(manifests + "examples/kyverno/mutatingpolicy.yaml")
	check(t, err)
	program := os.Getenv(kyvernoEnv)
	if program == "" {
		t.Fatalf("%s is not set: run the test with make kyverno-check", kyvernoEnv)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(program, "kyverno"), "apply", policy, "--resource=pod.yaml", "--context-file=context.yaml", "--userinfo=user.yaml", "--output=changed.yaml")
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(folder, "changed.yaml"))
	if os.IsNotExist(err) { // no change
		text, err = os.ReadFile(filepath.Join(folder, "pod.yaml"))
	}
	check(t, err)
	check(t, yaml.Unmarshal(text, &pod))
	t.Logf("%s", out)
	return pod
}
