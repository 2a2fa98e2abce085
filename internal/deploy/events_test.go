//go:build e2e

package deploy_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"

	"github.com/gpuledger/gpuledger/internal/archive"
	"github.com/gpuledger/gpuledger/internal/reconciler"
)

const eventsSecret = "gpuledger-events"

// With these values, the reconciler sends events to the chart's archive.
const withEvents = "--set=archive.enabled=true,archive.events.enabled=true,archive.events.cluster=east,archive.postgresUrl=postgres://archive@db/assets"

// TestEventsToken checks, for the overlay and the chart, that the archive requires a token from a Secret and that the
// reconciler sends it. Each pod must mount only its own key of the Secret, and no manifest may contain a token.
func TestEventsToken(t *testing.T) {
	overlay, err := os.ReadFile(rendering + "example.yaml")
	check(t, err)
	rendered, err := template(t, withEvents)
	check(t, err)
	for name, text := range map[string]string{"overlay": string(overlay), "chart": rendered} {
		keys := map[string]string{"gpuledger-archive": "tokens", "gpuledger-reconciler": "token"}
		for document := range strings.SplitSeq("\n"+text, "\n---\n") {
			w := &workload{}
			check(t, yaml.Unmarshal([]byte(document), w))
			if w.Kind == "Secret" && name == "overlay" {
				t.Errorf("the overlay has the Secret %s", w.Name)
			}
			key := keys[w.Name]
			if w.Kind != "Deployment" || key == "" {
				continue
			}
			delete(keys, w.Name)
			pod := w.Spec.Template.Spec
			path, mounted := mountedKey(t, &pod, eventsSecret)
			if !slices.Equal(mounted, []string{key}) {
				t.Errorf("%s: %s has the keys %q, want %s", name, w.Name, mounted, key)
			}
			if got := tokenFile(t, w.Name, arguments(&pod.Containers[0])); got != path {
				t.Errorf("%s: %s reads the token from %s, but the Secret is in %s", name, w.Name, got, path)
			}
		}
		if len(keys) > 0 {
			t.Errorf("%s: no Deployment for %v", name, keys)
		}
	}
}

func mountedKey(t *testing.T, pod *corev1.PodSpec, secret string) (path string, keys []string) {
	t.Helper()
	for _, volume := range pod.Volumes {
		if volume.Secret == nil || volume.Secret.SecretName != secret {
			continue
		}
		for _, item := range volume.Secret.Items {
			keys = append(keys, item.Key)
			for _, mount := range pod.Containers[0].VolumeMounts {
				if mount.Name == volume.Name {
					path = filepath.Join(mount.MountPath, item.Path)
				}
			}
		}
	}
	return path, keys
}

func tokenFile(t *testing.T, name string, args []string) string {
	t.Helper()
	if name == "gpuledger-archive" {
		c, err := archive.Parse(args)
		check(t, err)
		if !c.Events.Receive || c.Events.Insecure {
			t.Errorf("%s: events are %+v", name, c.Events)
		}
		return c.Events.TokenFile
	}
	c, err := reconciler.Parse(args, func(string) string { return "x" })
	check(t, err)
	return c.Events.TokenFile
}

// TestArchiveIngress checks that the network policies allow only the reconciler and Prometheus to reach an archive that
// receives events.
func TestArchiveIngress(t *testing.T) {
	documents := make(map[string][]string)
	for _, component := range []string{"events", "isolation"} {
		text, err := os.ReadFile(manifests + "components/" + component + "/networkpolicy.yaml")
		check(t, err)
		documents[component] = strings.Split(string(text), "\n---\n")
	}
	rendered, err := template(t, withEvents)
	check(t, err)
	documents["chart"] = strings.Split(rendered, "\n---\n")
	want := []string{"namespace monitoring", "pods reconciler"}
	for name, all := range documents {
		var from []string
		for _, document := range all {
			var policy networkingv1.NetworkPolicy
			check(t, yaml.Unmarshal([]byte(document), &policy))
			if policy.Kind != "NetworkPolicy" || policy.Spec.PodSelector.MatchLabels["app.kubernetes.io/component"] != "archive" {
				continue
			}
			if !slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
				t.Errorf("%s: %s does not limit the clients", name, policy.Name)
			}
			for _, rule := range policy.Spec.Ingress {
				if len(rule.Ports) != 1 || rule.Ports[0].Port.IntValue() != 9841 {
					t.Errorf("%s: %s opens the ports %v", name, policy.Name, rule.Ports)
				}
				for _, peer := range rule.From {
					from = append(from, peerName(&peer))
				}
			}
		}
		if diff := gocmp.Diff(want, from); diff != "" {
			t.Errorf("%s: clients of the archive (-want +got):\n%s", name, diff)
		}
	}
}

func peerName(peer *networkingv1.NetworkPolicyPeer) string {
	switch {
	case peer.IPBlock != nil:
		return "addresses " + peer.IPBlock.CIDR
	case peer.NamespaceSelector != nil && peer.PodSelector == nil:
		return "namespace " + peer.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"]
	case peer.NamespaceSelector == nil && peer.PodSelector != nil:
		return "pods " + peer.PodSelector.MatchLabels["app.kubernetes.io/component"]
	}
	return peer.String()
}

// TestSecretModes checks the modes of the Secrets that the archive and the reconciler mount. Only the owner of the
// files and a group of the program's user may be able to read the files.
func TestSecretModes(t *testing.T) {
	volumes := 0
	rendered(t, func(t *testing.T, w *workload) {
		pod := w.Spec.Template.Spec
		if image := imageName(pod.Containers[0].Image); image != "gpuledger-archive" && image != "gpuledger-reconciler" {
			return
		}
		for _, volume := range pod.Volumes {
			if volume.Secret == nil {
				continue
			}
			volumes++
			if mode := volume.Secret.DefaultMode; mode == nil || *mode != 0o440 {
				t.Errorf("%s has the mode %v, want 0440", volume.Name, mode)
			}
			if s := pod.SecurityContext; s.FSGroup == nil || s.RunAsGroup == nil || *s.FSGroup != *s.RunAsGroup {
				t.Errorf("the group of the files is %v, the group of the program is %v", s.FSGroup, s.RunAsGroup)
			}
		}
	})
	if volumes < 4 {
		t.Errorf("%d volumes found, want at least 4", volumes)
	}
}

// TestChartToken checks that an installation creates a random token, and that an upgrade keeps the token in the
// cluster's Secret. The archive must accept the token only for the events of this cluster.
func TestChartToken(t *testing.T) {
	secret := func(chart string, args ...string) (token, tokens string) {
		text, err := helm(t, append([]string{"template", "gpuledger", chart, "--namespace=gpuledger", "--skip-tests", "--kube-version=1.37.0", withEvents}, args...)...)
		check(t, err)
		data, _ := at(objects(t, text)["Secretgpuledger"+eventsSecret], "data").(map[string]any)
		return decode(t, data["token"]), decode(t, data["tokens"])
	}
	first, tokens := secret(chart)
	second, _ := secret(chart)
	if len(first) < 40 || first == second || tokens != "east "+first+"\n" {
		t.Errorf("tokens %q and %q, for the archive %q", first, second, tokens)
	}
	only := t.TempDir() // helm reads only the Secret, because the server serves no other kind
	for _, file := range []string{"Chart.yaml", "values.yaml", "templates/_names.tpl", "templates/events.yaml"} {
		text, err := os.ReadFile(filepath.Join(chart, file))
		check(t, err)
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(only, file)), 0o700))
		check(t, os.WriteFile(filepath.Join(only, file), text, 0o600))
	}
	kept, tokens := secret(only, "--dry-run=server", "--disable-openapi-validation", "--kubeconfig="+clusterWith(t, first))
	if kept != first || tokens != "east "+first+"\n" {
		t.Errorf("after an upgrade the token is %q, for the archive %q, want %q", kept, tokens, first)
	}
	if _, err := template(t, withEvents, "--set=archive.events.cluster="); err == nil || !strings.Contains(err.Error(), "archive.events.cluster") {
		t.Errorf("without a cluster: %v", err)
	}
	text, err := template(t, withEvents, "--set=archive.events.existingSecret=ours")
	check(t, err)
	if strings.Contains(text, eventsSecret) || strings.Count(text, "secretName: ours") != 2 {
		t.Error("the chart does not use the Secret of the values in both programs")
	}
}

func decode(t *testing.T, text any) string {
	t.Helper()
	encoded, _ := text.(string)
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	check(t, err)
	return string(decoded)
}

// clusterWith serves a Secret with a token, because helm's function lookup reads this Secret from the Kubernetes API.
// It returns the path of a kubeconfig for this API.
func clusterWith(t *testing.T, token string) string {
	t.Helper()
	answers := map[string]any{
		"/version": version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.0"},
		"/api":     metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
		"/apis":    metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}},
		"/api/v1": metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1",
			APIResources: []metav1.APIResource{{Name: "secrets", SingularName: "secret", Kind: "Secret", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}}},
		},
		"/api/v1/namespaces/gpuledger/secrets/" + eventsSecret: corev1.Secret{
			TypeMeta: metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{
				Name: eventsSecret, Namespace: "gpuledger", Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"},
				Annotations: map[string]string{"meta.helm.sh/release-name": "gpuledger", "meta.helm.sh/release-namespace": "gpuledger"},
			},
			Data: map[string][]byte{"token": []byte(token), "tokens": []byte("old " + token)},
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[r.URL.Path]
		if answer == nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	check(t, os.WriteFile(file, []byte(`apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: "`+server.URL+`"}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
users: [{name: test, user: {}}]
`), 0o600))
	return file
}
