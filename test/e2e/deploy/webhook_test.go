//go:build e2e

package deploy_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	certificates "github.com/gpuledger/gpuledger/test/certificate"
	"github.com/gpuledger/gpuledger/test/e2e/cluster"
)

// TestWebhookDown makes the webhook unreachable, silent, and untrusted. The device plugin's pods must still be created
// within seconds, without the container. When the webhook works again, new pods must get the container.
func TestWebhookDown(t *testing.T) {
	static := installers[0]
	pod := exampleBy(t, static, byWebhook)
	patch := []byte(`[{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]`) // the shipped value
	_, err := world.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(t.Context(), "gpuledger", types.JSONPatchType, patch, meta.PatchOptions{})
	check(t, err)
	admitted := func() bool {
		begun := time.Now()
		got, err := createAs(t, daemonSetController, static.namespace, pod)
		check(t, err)
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("the pod was created after %v", took)
		}
		if !hasSidecar(got) {
			if diff := cmp.Diff(without(pod), without(got)); diff != "" || got.Spec.HostPID {
				t.Errorf("the pod was changed (-before +after):\n%s", diff)
			}
		}
		return hasSidecar(got)
	}
	was := world.egress.Address()
	world.egress.Route("")
	eventually(t, "the API server reads the patch and ignores a closed connection", func() bool {
		got, err := createAs(t, daemonSetController, static.namespace, pod)
		return err == nil && !hasSidecar(got)
	})
	if admitted() {
		t.Error("a webhook that closes the connection added the container")
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	world.egress.Route(silent.Addr().String())
	if admitted() {
		t.Error("a webhook that does not respond added the container")
	}
	world.egress.Route(was)
	eventually(t, "the webhook adds the container again", admitted)

	second := startReplica(t, "two")
	eventually(t, "the second replica is ready", func() bool { return ready(t, second) })
	world.egress.Route(second.address)
	eventually(t, "a replica that is not the leader adds the container", func() bool { return admitted() && requests(t, second, "injected") > 0 })

	folder := t.TempDir()
	certificates.Write(t, folder, "gpuledger-webhook.gpuledger.svc")
	check(t, os.Rename(filepath.Join(folder, "cert.pem"), filepath.Join(folder, "tls.crt")))
	check(t, os.Rename(filepath.Join(folder, "key.pem"), filepath.Join(folder, "tls.key")))
	stranger := startReplica(t, "three", "--webhook.certificates="+folder)
	eventually(t, "the replica with files is ready", func() bool { return ready(t, stranger) })
	world.egress.Route(stranger.address)
	if admitted() {
		t.Error("a webhook with a certificate from another authority added the container")
	}
	eventually(t, "the reconciler counts the rejection", func() bool { return requests(t, stranger, "certificate_rejected") > 0 })
	world.egress.Route(second.address)
	eventually(t, "the trusted replica adds the container", admitted)
	second.Stop()
	if admitted() {
		t.Error("a stopped reconciler added the container")
	}
}

// TestWithoutPolicyAPI checks the webhook on an API server that does not serve MutatingAdmissionPolicy, as in
// Kubernetes 1.34.
func TestWithoutPolicyAPI(t *testing.T) {
	dir, err := os.MkdirTemp("", "e2e") // a short path, because it contains a socket
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	egress, flag, err := cluster.OpenEgress(t.Context(), dir)
	check(t, err)
	c, err := cluster.Start(t.Context(), flag, "--emulated-version=1.34")
	check(t, err)
	t.Cleanup(c.Stop)
	before := world
	t.Cleanup(func() { world = before })
	world.Cluster, world.egress, world.kubeconfig = c, egress, filepath.Join(dir, "kubeconfig")
	check(t, cluster.WriteKubeconfig(world.kubeconfig, c.Admin))
	if out := kubectl(t, "api-resources"); strings.Contains(out, "MutatingAdmissionPolicy") || !strings.Contains(out, "MutatingWebhookConfiguration") {
		t.Fatalf("the API server serves the policy:\n%s", out)
	}
	kubectl(t, "apply", "--server-side", "-k", "testdata/webhook")
	serveWebhook(t)
	trusted(t)
	chooseAll(t)
	pod := &core.Pod{
		ObjectMeta: meta.ObjectMeta{GenerateName: "p-", Namespace: "kube-system", OwnerReferences: []meta.OwnerReference{
			{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "u", Controller: new(true)},
		}},
		Spec: core.PodSpec{Containers: []core.Container{{Name: "nvidia-device-plugin-ctr", Image: "x"}}, AutomountServiceAccountToken: new(false)},
	}
	kubectl(t, "create", "serviceaccount", "default", "--namespace=kube-system")
	eventually(t, "the webhook adds the container", func() bool {
		got, err := createAs(t, daemonSetController, "kube-system", pod)
		check(t, err)
		return hasSidecar(got)
	})
	got, err := createAs(t, "admin", "kube-system", pod)
	check(t, err)
	if hasSidecar(got) {
		t.Error("a pod of an administrator has the container")
	}
}
