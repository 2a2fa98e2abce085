//go:build e2e

package deploy_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/test/e2e/cluster"
	"github.com/gpuledger/gpuledger/test/program"
)

// TestLabels checks the reconciler with the arguments in its Deployment and the rights of its service account. By
// default it must write nothing. With the component "labels" it must label the Node. The documented removal must delete
// the labels.
func TestLabels(t *testing.T) {
	binary := program.BuiltFor(t, "gpuledger-reconciler")
	t.Cleanup(func() { remove(t, "-k", "testdata/labels") }) // runs after the pods were deleted, because no kubelet ends them
	apply(t, "-k", overlay("operator-standalone"))
	standaloneOnNode1(t)

	r := startReconciler(t, binary, deploymentArguments(t)...)
	eventually(t, "the reconciler logs the labels that it would write", func() bool { return strings.Contains(logged(t, r), "gpuledger.io/gpu-count") })
	if got := labels(t, "gpu-1"); len(got) > 0 {
		t.Errorf("labels without the component \"labels\": %v, want none", got)
	}
	r.Stop()

	kubectl(t, "apply", "--server-side", "-k", "testdata/labels")
	r = startReconciler(t, binary, deploymentArguments(t)...)
	eventually(t, "the Node has labels", func() bool { return labels(t, "gpu-1")["gpuledger.io/gpu-0"] == "1650000000001" })

	// A running reconciler would restore the labels, so the Job waits until it ends.
	commands := documented(t, "## Uninstall", "")
	shell(t, "", containing(t, commands, "delete deployment"))
	ended := runJob(t, binary)
	shell(t, "", containing(t, commands, "uninstall/labels"))
	select {
	case <-ended:
		t.Error("the clean-up ended while a reconciler was running")
	case <-time.After(5 * time.Second):
	}
	r.Stop()
	<-ended
	if out := shell(t, "", containing(t, commands, "get job")); !strings.Contains(out, "Complete") {
		t.Errorf("the command in docs/install.md prints %q, want Complete", out)
	}
	if got := labels(t, "gpu-1"); len(got) > 0 {
		t.Errorf("labels after the clean-up: %v, want none", got)
	}
}

// standaloneOnNode1 replaces the exporter's pod on gpu-1 with a server that returns an inventory. It returns the number
// of requests to this server.
func standaloneOnNode1(t *testing.T) *atomic.Int64 {
	t.Helper()
	port, asked := inventory(t, "gpu-1", "1650000000001")
	patch := fmt.Sprintf(`[{"op": "replace", "path": "/spec/template/spec/containers/0/ports/0/containerPort", "value": %d}]`, port)
	kubectl(t, "patch", "daemonset", "--namespace=gpuledger", "gpuledger", "--type=json", "--patch="+patch)
	eventually(t, "the pods have the port", func() bool {
		return !slices.ContainsFunc(podsOf(t, "gpuledger", "gpuledger"), func(p core.Pod) bool { return int(container(&p).Ports[0].ContainerPort) != port })
	})
	runs(t, onTheNode(t, podsOf(t, "gpuledger", "gpuledger"), "gpu-1"))
	return asked
}

func inventory(t *testing.T, node, serial string) (port int, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprintf(w, `{"version": 1, "time": %q, "driver_up": true, "driver": {"source": "nvml", "driver_version": "580.1"}, "node": {"name": %q},
			"gpus": [{"uuid": "GPU-00000000-0000-4000-8000-%012s", "pci_bus_id": "00000000:1B:00.0", "serial": %q, "model": "NVIDIA H100", "present": true}]}`,
			time.Now().UTC().Format(time.RFC3339Nano), node, serial, serial)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).Port, asked
}

// runs binds the pod to its node, as the scheduler does. Then it sets the pod's status to Running with a loopback
// address, as the kubelet does.
func runs(t *testing.T, pod *core.Pod) {
	t.Helper()
	bind(t, pod)
	const status = `{"status": {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}], "phase": "Running", "containerStatuses":
		[{"name": "gpuledger", "image": "i", "imageID": "", "containerID": "test://1", "ready": true, "restartCount": 0}]}}`
	_, err := world.Client.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, []byte(status), meta.PatchOptions{}, "status")
	check(t, err)
}

// deploymentArguments expands $(NAME) in the arguments, as the kubelet does.
func deploymentArguments(t *testing.T) []string {
	t.Helper()
	deployment, err := world.Client.AppsV1().Deployments("gpuledger").Get(t.Context(), "gpuledger-reconciler", meta.GetOptions{})
	check(t, err)
	c := deployment.Spec.Template.Spec.Containers[0]
	for i := range c.Args {
		for _, env := range c.Env {
			c.Args[i] = strings.ReplaceAll(c.Args[i], "$("+env.Name+")", env.Value)
		}
	}
	return c.Args
}

func access(t *testing.T) []string {
	t.Helper()
	config, err := world.ServiceAccount(t.Context(), "gpuledger", "gpuledger-reconciler")
	check(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	check(t, cluster.WriteKubeconfig(kubeconfig, config))
	return []string{"--kubeconfig=" + kubeconfig}
}

func labels(t *testing.T, name string) map[string]string {
	t.Helper()
	node, err := world.Client.CoreV1().Nodes().Get(t.Context(), name, meta.GetOptions{})
	check(t, err)
	found := make(map[string]string)
	for key, value := range node.Labels {
		if strings.HasPrefix(key, "gpuledger.io/") {
			found[key] = value
		}
	}
	return found
}

func startReconciler(t *testing.T, binary string, args ...string) *program.Program {
	t.Helper()
	args = append(args, access(t)...)
	args = append(args, "--web.listen-address=127.0.0.1:0", "--leader-election.namespace=gpuledger", "--leader-election.identity=test",
		"--leader-election.duration=2s", "--resync=1s", "--confirm=100ms")
	r, err := program.OpenFor(t).Start("gpuledger-reconciler", binary, args...)
	check(t, err)
	return r
}

func logged(t *testing.T, p *program.Program) string {
	t.Helper()
	log, err := os.ReadFile(p.Log)
	check(t, err)
	return string(log)
}
