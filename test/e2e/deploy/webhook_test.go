//go:build e2e

package deploy_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/gpuledger/gpuledger/internal/reconciler/certificate"
	certificates "github.com/gpuledger/gpuledger/test/certificate"
	"github.com/gpuledger/gpuledger/test/e2e/cluster"
	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/program"
)

// The two ways to add the container.
const (
	byPolicy  = "policy"
	byWebhook = "webhook"
)

// replica is a running reconciler with a webhook.
type replica struct {
	*program.Program
	address string // of the webhook
	metrics string // URL
}

// serveWebhook runs the reconciler with the arguments of its Deployment and the rights of its account, and
// connects the API server to it.
func serveWebhook(t *testing.T) *replica {
	t.Helper()
	r := startReplica(t, "one")
	eventually(t, "the reconciler is ready", func() bool { return ready(t, r) })
	world.egress.Route(r.address)
	t.Cleanup(func() { world.egress.Route("") })
	return r
}

func startReplica(t *testing.T, name string, flags ...string) *replica {
	t.Helper()
	r := &replica{address: program.AddressFor(t), metrics: program.AddressFor(t)}
	args := append(deploymentArguments(t), access(t)...)
	args = append(args, "--webhook.listen-address="+r.address, "--web.listen-address="+r.metrics, "--leader-election.namespace=gpuledger",
		"--leader-election.identity="+name, "--leader-election.duration=2s", "--resync=1s", "--confirm=100ms")
	args = append(args, flags...)
	p, err := program.OpenFor(t).Start("gpuledger-reconciler", reconciler(t), args...)
	check(t, err)
	r.Program = p
	return r
}

// ready asks the reconciler whether it is ready, as a kubelet does.
func ready(t *testing.T, r *replica) bool {
	t.Helper()
	out, err := tryShell(t, "", "curl --silent --fail http://"+r.metrics+"/-/ready")
	return err == nil && out == "ready\n"
}

// requests returns the number of the webhook's requests with a result.
func requests(t *testing.T, r *replica, result string) float64 {
	t.Helper()
	page, err := exposition.Scrape(t.Context(), "http://"+r.metrics+"/metrics")
	check(t, err)
	sum := 0.0
	for _, m := range page.Matches("gpuledger_reconciler_webhook_requests_total", map[string]string{"result": result}) {
		sum += exposition.Value(m)
	}
	return sum
}

// trusted waits until the leader has written the authority into the webhook's configuration.
func trusted(t *testing.T) {
	t.Helper()
	eventually(t, "the webhook has caBundle", func() bool {
		w, err := world.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "gpuledger", meta.GetOptions{})
		check(t, err)
		return len(w.Webhooks[0].ClientConfig.CABundle) > 0
	})
}

// install applies an overlay with components, in a namespace for which there may be several device plugins, and
// selects all nodes.
func install(t *testing.T, by, name string, namespaces []string, components ...string) {
	t.Helper()
	parent := t.TempDir()
	first, folder := filepath.Join(parent, "namespaces"), filepath.Join(parent, "all")
	check(t, os.Mkdir(first, 0o700))
	check(t, os.Mkdir(folder, 0o700))
	patch := "- {op: replace, path: /spec/matchConstraints/namespaceSelector/matchExpressions/0/values, value: [" + strings.Join(namespaces, ", ") + "]}"
	text := "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches:\n- target: {kind: MutatingAdmissionPolicy, name: gpuledger}\n  patch: |-\n    " + patch + "\n"
	check(t, os.WriteFile(filepath.Join(first, "kustomization.yaml"), []byte(text), 0o600))
	all := []string{first}
	for _, c := range components {
		all = append(all, manifests+"components/"+c)
	}
	if by == byWebhook {
		all = append(all, manifests+"components/webhook")
	}
	compose(t, folder, map[string]any{"resources": []string{overlay(name)}, "components": all})
	apply(t, "-k", folder)
	if by == byWebhook {
		serveWebhook(t)
		trusted(t)
	}
	chooseAll(t)
	forceful(t)
}

var allNamespaces = []string{"kube-system", "nvidia-device-plugin", "gpu-operator"}

// upstream are the DaemonSets of the tests, as namespace/name, by the pods to which an installation adds the
// container. The others stay unchanged in all of them.
var upstream = map[string][]string{
	"": {
		"kube-system/nvidia-device-plugin-daemonset", "nvidia-device-plugin/nvdp-nvidia-device-plugin", "gpu-operator/nvidia-device-plugin-daemonset",
		"nvidia-device-plugin/nvidia-device-plugin-daemonset",
		"kube-system/amdgpu-device-plugin-daemonset", "kube-system/amdgpu-device-plugin-health", "kube-system/amd-gpu-device-plugin-daemonset",
	},
	"host-dcgm-exporter":      {"gpu-operator/nvidia-dcgm-exporter", "nvidia-device-plugin/chart-dcgm-exporter", "nvidia-device-plugin/dcgm-exporter"},
	"host-mps-control-daemon": {"nvidia-device-plugin/nvdp-nvidia-device-plugin-mps-control-daemon", "gpu-operator/nvidia-device-plugin-mps-control-daemon"},
}

// leftAlone are the DaemonSets that no installation changes.
var leftAlone = []string{
	"nvidia-device-plugin/configured-nvidia-device-plugin",                // shareProcessNamespace
	"nvidia-device-plugin/shared-nvidia-device-plugin-mps-control-daemon", // shareProcessNamespace
	"gpu-operator/host-dcgm-exporter",                                     // the host's network
	"nvidia-device-plugin/another-exporter",                               // another image
	"nvidia-device-plugin/nvdp-nvidia-device-plugin-gpu-feature-discovery",
}

// variants are parameters beside the image and the nodes.
var variants = map[string]map[string]string{
	"default":    {"nodes": "*"},
	"everything": {"nodes": "*", "webSecret": "web", "pullSecrets": "one, two\nplugin-registry", "selinuxType": "spc_t", "arguments": "--collector.gauges=false\n\n --log.level=debug\n"},
	"web":        {"nodes": "*", "webSecret": "web"},
	"a node":     {"nodes": "gpu-2, gpu-1"},
	"no nodes":   {},
	"no Secret":  {"nodes": "*", "webSecret": "No"},
}

// TestUpstream checks that policy and webhook add the container to the same pods of upstream's templates, with
// all parameters and in random pods, and that the resulting pods are equal.
func TestUpstream(t *testing.T) {
	for _, i := range installers {
		apply(t, "-f", i.file())
	}
	apply(t, "-f", "testdata/upstream/plugins.yaml")
	pods := make(map[string]*core.Pod)
	for _, name := range slices.Concat(slices.Concat(slices.Collect(maps.Values(upstream))...), leftAlone) {
		namespace, daemonSet, _ := strings.Cut(name, "/")
		for n, pod := range podsOf(t, namespace, daemonSet) {
			pods[fmt.Sprintf("%s %d", name, n)] = fresh(&pod)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for component, injected := range upstream {
		t.Run("in place of "+component, func(t *testing.T) {
			results := make(map[string]map[string]*core.Pod)
			for _, by := range []string{byPolicy, byWebhook} {
				t.Run(by, func(t *testing.T) {
					install(t, by, "static", allNamespaces, strings.Fields(component)...)
					results[by] = admitAll(t, pods, injected, rand.New(rand.NewPCG(seed, 0)))
				})
			}
			if diff := cmp.Diff(results[byPolicy], results[byWebhook]); diff != "" {
				t.Errorf("pods (-by the policy +by the webhook):\n%s", diff)
			}
			with := slices.DeleteFunc(slices.Collect(maps.Values(results[byWebhook])), func(p *core.Pod) bool { return !hasSidecar(p) })
			if len(with) < 10 {
				t.Errorf("%d pods with the container, want at least 10", len(with))
			}
		})
	}
}

// admitAll returns the admitted pods for each of the variants, and of random pods.
func admitAll(t *testing.T, pods map[string]*core.Pod, injected []string, random *rand.Rand) map[string]*core.Pod {
	t.Helper()
	results := make(map[string]*core.Pod)
	first := pods[injected[0]+" 0"]
	admit := func(pod *core.Pod) *core.Pod {
		got, err := createAs(t, daemonSetController, pod.Namespace, pod)
		check(t, err)
		return got
	}
	for _, name := range slices.Sorted(maps.Keys(variants)) {
		parameters := variants[name]
		// The image is another one for each of the variants, so that it shows which one is in force.
		image := "registry.example.com/gpuledger:" + strings.ReplaceAll(name, " ", "-")
		setParameters(t, image, map[string]string{"nodes": "*"})
		eventually(t, "the image is in force", func() bool { c := container(admit(first)); return c != nil && c.Image == image })
		setParameters(t, image, parameters)
		if parameters["nodes"] == "" || parameters["webSecret"] == "No" {
			eventually(t, name+" is in force", func() bool { return !hasSidecar(admit(first)) })
		} else if name != "default" && name != "a node" {
			eventually(t, name+" is in force", func() bool { return len(container(admit(first)).Args) > 1 })
		}
		for key, pod := range pods {
			if name == "default" || slices.Contains(injected, strings.Fields(key)[0]) {
				results[name+": "+key] = normalized(t, admit(pod))
			}
			if want := slices.Contains(injected, strings.Fields(key)[0]); name == "default" && hasSidecar(results[name+": "+key]) != want {
				t.Errorf("%s has the container: %v, want %v", key, !want, want)
			}
		}
	}
	everything := variants["everything"]
	setParameters(t, "registry.example.com/random", everything)
	eventually(t, "the parameters are in force", func() bool { c := container(admit(first)); return c != nil && len(c.Args) > 2 })
	for n := range 60 {
		results[fmt.Sprint("random ", n)] = normalized(t, admit(randomPod(first, random)))
	}
	return results
}

// randomPod returns a pod with random lists to which the container is added.
func randomPod(of *core.Pod, random *rand.Rand) *core.Pod {
	p := of.DeepCopy()
	some := func(names ...string) []string {
		return slices.DeleteFunc(names, func(string) bool { return random.IntN(2) == 0 })
	}
	p.Annotations = nil
	for _, key := range some("a", "b/c", "gpuledger.io/injected-by") {
		p.Annotations = map[string]string{"example.com/first": "1"}
		p.Annotations["example.com/"+strings.ReplaceAll(key, "/", ".")] = "x"
	}
	p.Spec.Volumes, p.Spec.InitContainers = nil, nil
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].VolumeMounts = nil
	}
	for _, name := range some("v", "w") {
		p.Spec.Volumes = append(p.Spec.Volumes, core.Volume{Name: name})
	}
	p.Spec.ImagePullSecrets = nil
	for _, name := range some("zero", "one", "two", "plugin-registry") {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, core.LocalObjectReference{Name: name})
	}
	for _, name := range some("amdgpu-dp-cntr", "other", "amdgpu-dp-cntr-health") {
		c := core.Container{Name: name, Image: "x"}
		p.Spec.Containers = slices.Insert(p.Spec.Containers, random.IntN(len(p.Spec.Containers)+1), c)
	}
	for _, change := range []func(){
		func() { p.Spec.HostPID = true },
		func() { p.Spec.ShareProcessNamespace = new(true) },
		func() { p.Spec.HostNetwork = true },
		func() { p.Spec.AutomountServiceAccountToken = new(false) },
		func() { p.Spec.SecurityContext = &core.PodSecurityContext{RunAsNonRoot: new(true)} },
		func() { p.OwnerReferences = nil },
	} {
		if random.IntN(8) == 0 {
			change()
		}
	}
	if p.Spec.ShareProcessNamespace != nil {
		p.Spec.HostPID = false // both are invalid
	}
	return p
}

// normalized returns an admitted pod without its random names and without the annotation that names the origin
// of the container, which it checks.
func normalized(t *testing.T, pod *core.Pod) *core.Pod {
	t.Helper()
	p := pod.DeepCopy()
	p.ObjectMeta = meta.ObjectMeta{Namespace: pod.Namespace, Labels: pod.Labels, Annotations: maps.Clone(pod.Annotations), OwnerReferences: pod.OwnerReferences}
	if origin, ok := p.Annotations["gpuledger.io/injected-by"]; ok != hasSidecar(pod) || ok && origin != "MutatingAdmissionPolicy gpuledger" && origin != "MutatingWebhookConfiguration gpuledger" {
		t.Errorf("the annotation injected-by is %q", origin)
	}
	delete(p.Annotations, "gpuledger.io/injected-by")
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; v.Projected != nil {
			v.Name = "token"
		}
	}
	for _, containers := range [][]core.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range containers {
			for n := range containers[i].VolumeMounts {
				if m := &containers[i].VolumeMounts[n]; strings.HasPrefix(m.Name, "kube-api-access-") {
					m.Name = "token"
				}
			}
		}
	}
	return p
}

// setParameters replaces all parameters.
func setParameters(t *testing.T, image string, parameters map[string]string) {
	t.Helper()
	data := maps.Clone(parameters)
	data["image"] = image
	object, err := world.Client.CoreV1().ConfigMaps("gpuledger").Get(t.Context(), "gpuledger-sidecar", meta.GetOptions{})
	check(t, err)
	object.Data = data
	_, err = world.Client.CoreV1().ConfigMaps("gpuledger").Update(t.Context(), object, meta.UpdateOptions{})
	check(t, err)
}

// TestWebhookDown checks that a pod of the device plugin is created without the container, within seconds, if
// the reconciler is stopped, hangs, or is not trusted, and with it after each of them.
func TestWebhookDown(t *testing.T) {
	static := installers[0]
	pod := exampleBy(t, static, byWebhook)
	patch := []byte(`[{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]`) // as shipped
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
	eventually(t, "a closed connection is ignored", func() bool { return !admitted() })
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	world.egress.Route(silent.Addr().String())
	if admitted() {
		t.Error("a webhook that does not respond adds the container")
	}
	world.egress.Route(was)
	eventually(t, "the webhook adds the container again", admitted)

	second := startReplica(t, "two")
	eventually(t, "the second replica is ready", func() bool { return ready(t, second) })
	world.egress.Route(second.address)
	eventually(t, "a replica that does not lead adds the container", func() bool { return admitted() && requests(t, second, "injected") > 0 })

	folder := t.TempDir()
	certificates.Write(t, folder, "gpuledger-webhook.gpuledger.svc")
	check(t, os.Rename(filepath.Join(folder, "cert.pem"), filepath.Join(folder, "tls.crt")))
	check(t, os.Rename(filepath.Join(folder, "key.pem"), filepath.Join(folder, "tls.key")))
	stranger := startReplica(t, "three", "--webhook.certificates="+folder)
	eventually(t, "the replica with files is ready", func() bool { return ready(t, stranger) })
	world.egress.Route(stranger.address)
	if admitted() {
		t.Error("a webhook with a certificate of another authority adds the container")
	}
	eventually(t, "the reconciler counts the rejection", func() bool { return requests(t, stranger, "certificate_rejected") > 0 })
	world.egress.Route(second.address)
	eventually(t, "the trusted replica adds the container", admitted)
	second.Stop()
	if admitted() {
		t.Error("a stopped reconciler adds the container")
	}
}

// TestWebhookRights checks that the reconciler's account can change caBundle of its webhook and the Secret of the
// certificates, and nothing else of admission and of Secrets.
func TestWebhookRights(t *testing.T) {
	apply(t, "-k", "testdata/webhook")
	config, err := world.ServiceAccount(t.Context(), "gpuledger", "gpuledger-reconciler")
	check(t, err)
	client, err := kubernetes.NewForConfig(config)
	check(t, err)
	ctx := t.Context()
	other := &core.Secret{ObjectMeta: meta.ObjectMeta{Namespace: "gpuledger", Name: "another"}}
	_, err = world.Client.CoreV1().Secrets("gpuledger").Create(ctx, other, meta.CreateOptions{})
	check(t, err)
	t.Cleanup(func() {
		_ = world.Client.CoreV1().Secrets("gpuledger").Delete(context.Background(), "another", meta.DeleteOptions{}) // its namespace may be deleted
	})
	webhooks, secrets := client.AdmissionregistrationV1().MutatingWebhookConfigurations(), client.CoreV1().Secrets("gpuledger")
	mine := meta.ListOptions{FieldSelector: "metadata.name=gpuledger-webhook"}
	for name, do := range map[string]func() error{
		"read another Secret":   func() error { _, err := secrets.Get(ctx, "another", meta.GetOptions{}); return err },
		"list all Secrets":      func() error { _, err := secrets.List(ctx, meta.ListOptions{}); return err },
		"update another Secret": func() error { _, err := secrets.Update(ctx, other, meta.UpdateOptions{}); return err },
		"create a Secret":       func() error { _, err := secrets.Create(ctx, other, meta.CreateOptions{}); return err },
		"delete its Secret":     func() error { return secrets.Delete(ctx, "gpuledger-webhook", meta.DeleteOptions{}) },
		"Secrets elsewhere":     func() error { _, err := client.CoreV1().Secrets("kube-system").List(ctx, mine); return err },
		"list all ConfigMaps": func() error {
			_, err := client.CoreV1().ConfigMaps("gpuledger").List(ctx, meta.ListOptions{})
			return err
		},
		"change its parameters": func() error {
			_, err := client.CoreV1().ConfigMaps("gpuledger").Patch(ctx, "gpuledger-sidecar", types.MergePatchType, []byte(`{}`), meta.PatchOptions{})
			return err
		},
		"another webhook": func() error {
			_, err := webhooks.Patch(ctx, "another", types.JSONPatchType, []byte(`[]`), meta.PatchOptions{})
			return err
		},
		"delete its webhook": func() error { return webhooks.Delete(ctx, "gpuledger", meta.DeleteOptions{}) },
		"list all webhooks":  func() error { _, err := webhooks.List(ctx, meta.ListOptions{}); return err },
	} {
		if err := do(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want an error of kind Forbidden", name, err)
		}
	}
	list, err := secrets.List(ctx, mine)
	check(t, err)
	if len(list.Items) != 1 {
		t.Fatalf("%d Secrets of the webhook, want 1", len(list.Items))
	}
	_, err = secrets.Update(ctx, &list.Items[0], meta.UpdateOptions{})
	check(t, err)
	fenced(t, client)
}

// fenced checks that the fence rejects every change of the webhook by the reconciler except of caBundle.
func fenced(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	patch := func(operation string) error {
		options := meta.PatchOptions{DryRun: []string{meta.DryRunAll}}
		_, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(t.Context(), "gpuledger", types.JSONPatchType, []byte("["+operation+"]"), options)
		return err
	}
	refused := func(operation string) bool {
		err := patch(operation)
		return err != nil && strings.Contains(err.Error(), "gpuledger-reconciler may")
	}
	replace := func(path, value string) string {
		return `{"op": "replace", "path": "` + path + `", "value": ` + value + `}`
	}
	eventually(t, "the fence is in force", func() bool { return refused(replace("/webhooks/0/timeoutSeconds", "1")) })
	for _, operation := range []string{
		replace("/webhooks/0/rules/0/resources", `["secrets"]`),
		replace("/webhooks/0/rules/0/operations", `["*"]`),
		replace("/webhooks/0/clientConfig/service/name", `"other"`),
		replace("/webhooks/0/clientConfig/service/namespace", `"elsewhere"`),
		replace("/webhooks/0/clientConfig/service/path", `"/other"`),
		replace("/webhooks/0/clientConfig", `{"url": "https://example.com/"}`),
		replace("/webhooks/0/namespaceSelector", `{}`),
		replace("/webhooks/0/objectSelector", `{"matchLabels": {"a": "b"}}`),
		replace("/webhooks/0/matchConditions", `[]`),
		replace("/webhooks/0/matchConditions/0/expression", `"true"`),
		replace("/webhooks/0/matchPolicy", `"Exact"`),
		replace("/webhooks/0/failurePolicy", `"Fail"`),
		replace("/webhooks/0/reinvocationPolicy", `"Never"`),
		replace("/webhooks/0/sideEffects", `"NoneOnDryRun"`),
		replace("/webhooks/0/name", `"other.gpuledger.io"`),
		replace("/webhooks", "[]"),
		replace("/metadata/labels", `{"a": "b"}`),
		`{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}`,
		`{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/a"]}`,
		`{"op": "copy", "from": "/webhooks/0", "path": "/webhooks/-"}, {"op": "replace", "path": "/webhooks/1/name", "value": "other.gpuledger.io"}`,
	} {
		if !refused(operation) {
			t.Errorf("%s: %v, want the fence's message", operation, patch(operation))
		}
	}
	secret, err := world.Client.CoreV1().Secrets("gpuledger").Get(t.Context(), "gpuledger-webhook", meta.GetOptions{})
	check(t, err)
	filled, _, err := certificate.Renew(secret.Data, "x", time.Now())
	check(t, err)
	authority := base64.StdEncoding.EncodeToString(filled[certificate.Authority])
	check(t, patch(`{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "`+authority+`"}`))
}

// TestWithoutPolicyAPI checks the webhook on an API server that behaves as Kubernetes 1.34, where
// MutatingAdmissionPolicy is not served.
func TestWithoutPolicyAPI(t *testing.T) {
	dir, err := os.MkdirTemp("", "e2e") // a short path, for the socket
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
