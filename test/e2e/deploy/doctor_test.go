//go:build e2e

package deploy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuledger/gpuledger/internal/doctor/advice"
	"github.com/gpuledger/gpuledger/test/program"
)

// diagnosis returns doctor's report about the tests' cluster. The given pod replaces all pods in the namespace of the
// static manifest, so it is the only pod of a device plugin.
func diagnosis(t *testing.T, pod *core.Pod) string {
	t.Helper()
	cluster, err := advice.Read(func(path string) ([]byte, error) {
		if strings.HasPrefix(path, "/api/v1/namespaces/kube-system/pods?") {
			return json.Marshal(core.PodList{Items: []core.Pod{*pod}})
		}
		return world.Client.CoreV1().RESTClient().Get().RequestURI(path).SetHeader("Accept", "application/json").DoRaw(t.Context())
	})
	check(t, err)
	var report strings.Builder
	_, err = cluster.Write(&report, advice.Options{Namespace: "gpuledger", Release: "0.1.0"})
	check(t, err)
	return report.String()
}

func applies(report string) bool {
	report = strings.Join(strings.Fields(report), " ")
	return strings.Contains(report, "created before the policy") || strings.Contains(report, "the policy applies")
}

// TestDoctorParameters compares the decisions of doctor and of the API server for several values of the
// policy's parameters.
func TestDoctorParameters(t *testing.T) {
	pod := example(t, installers[0])
	for _, tt := range []struct {
		key, value string
		want       bool
	}{
		{"nodes", "", false},
		{"nodes", node(pod), true},
		{"nodes", "x," + node(pod) + "\n", true},
		{"nodes", "x y\n" + node(pod), true},
		{"nodes", node(pod) + "0", false},
		{"nodes", "x, *", true},
		{"nodes", "**", false},
		{"nodes", "*", true},
		{"image", "a b", false},
		{"image", " a \n", true},
		{"image", "\t", false},
		{"image", "a", true},
		{"webSecret", "web", true},
		{"webSecret", "Web", false},
		{"webSecret", "", true},
		{"pullSecrets", "a, b.c", true},
		{"pullSecrets", "a, -b", false},
	} {
		patchParameter(t, tt.key, tt.value)
		// The API server needs a moment to read the changed ConfigMap.
		eventually(t, "the API server decides on "+tt.key+" "+quote(t, tt.value), func() bool {
			got, err := createAs(t, daemonSetController, "kube-system", pod)
			check(t, err)
			return hasSidecar(got) == tt.want
		})
		if report := diagnosis(t, pod); applies(report) != tt.want {
			t.Errorf("%s %q: doctor decides %v, the API server decides %v:\n%s", tt.key, tt.value, !tt.want, tt.want, report)
		}
	}
}

// TestDoctor runs kubectl gpuledger doctor several times, first without gpuledger and finally with an exporter on each
// Node.
func TestDoctor(t *testing.T) {
	dir := t.TempDir()
	check(t, os.Symlink(program.BuiltFor(t, "gpuledger-archive"), filepath.Join(dir, "kubectl-gpuledger")))
	doctor := func(status int, texts ...string) {
		t.Helper()
		// KUBECONFIG names a file that does not exist, so kubectl must pass this flag to the plugin.
		c := exec.CommandContext(t.Context(), world.kubectl, "gpuledger", "doctor", "--kubeconfig="+world.kubeconfig, "--request-timeout=1m")
		c.Env = append(environment(), "KUBECONFIG=/nonexistent", "PATH="+dir+":"+filepath.Dir(world.kubectl)+":"+os.Getenv("PATH"))
		out, err := c.CombinedOutput()
		if got := c.ProcessState.ExitCode(); got != status {
			t.Fatalf("exit status %d, want %d: %v\n%s", got, status, err, out)
		}
		for _, text := range texts {
			if !strings.Contains(strings.Join(strings.Fields(string(out)), " "), text) {
				t.Errorf("no %q in:\n%s", text, out)
			}
		}
	}
	static := installers[0]
	apply(t, "-f", static.file())
	podsOf(t, static.namespace, static.daemonSet)
	doctor(advice.ToDo, "Kubernetes v1.37", "MutatingAdmissionPolicy is served", "ready on 0 of 2 Nodes with GPUs",
		`"device plugin from its static manifest, Kubernetes ≥ 1.36" of docs/install.md: overlay static`, "--set devicePlugin.namespace=kube-system")

	apply(t, "-k", overlay("static"))
	doctor(advice.ToDo, "an admission policy for the pods in kube-system", "the parameter nodes does not select the Node")

	<-time.After(time.Second) // creation times are whole seconds
	chooseAll(t)
	doctor(advice.ToDo, "the pod was created before the policy, the webhook or the parameters last changed", "kubectl --namespace kube-system delete pod "+static.daemonSet)

	policyActs(t, static, fresh(&podsOf(t, static.namespace, static.daemonSet)[0]))
	kubectl(t, "--namespace", static.namespace, "rollout", "restart", "daemonset/"+static.daemonSet)
	eventually(t, "the pods have the container", func() bool {
		pods := podsOf(t, static.namespace, static.daemonSet)
		return hasSidecar(&pods[0]) && hasSidecar(&pods[1])
	})
	doctor(advice.ToDo, "the container has no state")

	pods := podsOf(t, static.namespace, static.daemonSet)
	for i := range pods {
		bind(t, &pods[i])
		report(t, &pods[i], core.ContainerStatus{Name: "gpuledger", State: core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"}}})
	}
	doctor(advice.ToDo, "the container waits: ErrImagePull: no such image")
	for i := range pods {
		report(t, &pods[i], core.ContainerStatus{Name: "gpuledger", Ready: true})
	}
	doctor(advice.Well, "ready on 2 of 2 Nodes with GPUs", "2 Nodes with label nvidia.com/gpu.present")
}

func report(t *testing.T, pod *core.Pod, status core.ContainerStatus) {
	t.Helper()
	now, err := world.Client.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, meta.GetOptions{})
	check(t, err)
	now.Status.ContainerStatuses = []core.ContainerStatus{status}
	_, err = world.Client.CoreV1().Pods(pod.Namespace).UpdateStatus(t.Context(), now, meta.UpdateOptions{})
	check(t, err)
}
