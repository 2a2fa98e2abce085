package deploy_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	syaml "sigs.k8s.io/yaml"

	"github.com/gpuledger/gpuledger/internal/deploy"
	"github.com/gpuledger/gpuledger/internal/sidecar"
	"github.com/gpuledger/gpuledger/test/markdown"
)

const manifests = "../../manifests/"

// TestYAML checks that the function prune removes no significant field.
func TestYAML(t *testing.T) {
	want := deploy.DaemonSet()
	text, err := deploy.YAML(want)
	check(t, err)
	got := &appsv1.DaemonSet{}
	check(t, syaml.UnmarshalStrict(text, got))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestParameters checks that the shipped ConfigMap contains only the image from the manifests, and that the
// documentation lists each parameter that the policy reads.
func TestParameters(t *testing.T) {
	text, err := os.ReadFile(manifests + "base/injection/parameters.yaml")
	check(t, err)
	parameters := &corev1.ConfigMap{}
	check(t, syaml.UnmarshalStrict(text, parameters))
	if parameters.Namespace != deploy.ParametersNamespace || parameters.Name != sidecar.ParametersName {
		t.Errorf("the policy reads %s/%s, want the name of the shipped ConfigMap", deploy.ParametersNamespace, sidecar.ParametersName)
	}
	if diff := cmp.Diff(map[string]string{"image": deploy.Image + deploy.Tag}, parameters.Data); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	policy, err := deploy.YAML(deploy.Policy())
	check(t, err)
	read := make(map[string]bool)
	for _, match := range regexp.MustCompile(`params\.\?data\.\?(\w+)`).FindAllSubmatch(policy, -1) {
		read[string(match[1])] = true
	}
	page, err := os.ReadFile("../../docs/install.md")
	check(t, err)
	_, settings, _ := strings.Cut(string(page), "the ConfigMap `gpuledger-sidecar`")
	settings, _, _ = strings.Cut(settings, "| component |")
	documented := make(map[string]bool)
	for _, match := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(settings, -1) {
		documented[match[1]] = true
	}
	if diff := cmp.Diff(read, documented); diff != "" {
		t.Errorf("(-read +documented):\n%s", diff)
	}
}

// TestTarget checks that the target of the patches matches the device plugin's DaemonSet and no other DaemonSet in the
// device plugin's chart. Kustomize compares the target with the whole name.
func TestTarget(t *testing.T) {
	target := regexp.MustCompile("^(" + deploy.DevicePluginName + ")$")
	for name, want := range map[string]bool{
		"nvidia-device-plugin-daemonset":                  true,
		"nvidia-device-plugin":                            true,
		"nvdp-nvidia-device-plugin":                       true,
		"nvidia-device-plugin-gpu-feature-discovery":      false,
		"nvdp-nvidia-device-plugin-gpu-feature-discovery": false,
		"nvdp-nvidia-device-plugin-mps-control-daemon":    false,
	} {
		if target.MatchString(name) != want {
			t.Errorf("%s matches: %v, want %v", name, !want, want)
		}
	}
	text, err := os.ReadFile(manifests + "components/sidecar/kustomization.yaml")
	check(t, err)
	if got := strings.Count(string(text), "name: "+deploy.DevicePluginName+"\n"); got != 2 {
		t.Errorf("the component contains the target %d times, want 2", got)
	}
}

// TestNamespaces checks that the documentation lists every place in the manifests that contains the device plugin's
// namespace. Where this namespace differs, users must change these places.
func TestNamespaces(t *testing.T) {
	page, err := os.ReadFile("../../docs/platforms.md")
	check(t, err)
	_, text, _ := strings.Cut(string(page), "\n### Another namespace or release name\n")
	text, _, _ = strings.Cut(text, "\n#")
	namespace := regexp.MustCompile(`(?m)(^  namespace: |matchNames: .*|names: .*)\b(kube-system|gpu-operator|nvidia-device-plugin)\b`)
	places := 0
	for _, folder := range []string{"base", "components", "prometheus"} {
		check(t, filepath.WalkDir(manifests+folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			manifest, err := os.ReadFile(path)
			if err != nil || !namespace.Match(manifest) {
				return err
			}
			places++
			place, _ := filepath.Rel(manifests, path)
			if folder == "components" {
				place = filepath.Dir(place)
			}
			if !strings.Contains(text, "`"+place+"`") {
				t.Errorf("%s contains the namespace, but docs/platforms.md does not list it", place)
			}
			return nil
		}))
	}
	if places != 4 {
		t.Errorf("%d places with the namespace, want 4", places)
	}
}

// TestOpenShiftMonitoring checks that the component adds the label that namespaces need for OpenShift's platform
// monitoring, and changes nothing else.
func TestOpenShiftMonitoring(t *testing.T) {
	text, err := os.ReadFile(manifests + "components/openshift-monitoring/kustomization.yaml")
	check(t, err)
	var component struct{ Patches []struct{ Patch string } }
	check(t, syaml.Unmarshal(text, &component))
	var got map[string]any
	check(t, syaml.Unmarshal([]byte(component.Patches[0].Patch), &got))
	want := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
		"name": "gpuledger", "labels": map[string]any{"openshift.io/cluster-monitoring": "true"},
	}}
	if diff := cmp.Diff(want, got); diff != "" || len(component.Patches) != 1 {
		t.Errorf("%d patches (-want +got):\n%s", len(component.Patches), diff)
	}
}

// TestKubeletRoot checks that the component for k0s moves exactly the volumes below the
// kubelet's root directory.
func TestKubeletRoot(t *testing.T) {
	text, err := os.ReadFile(manifests + "components/k0s/kustomization.yaml")
	check(t, err)
	var component struct{ Patches []struct{ Patch string } }
	check(t, syaml.Unmarshal(text, &component))
	patch := &appsv1.DaemonSet{}
	check(t, syaml.UnmarshalStrict([]byte(component.Patches[0].Patch), patch))
	var want []corev1.Volume
	for _, v := range sidecar.Volumes() {
		if v.HostPath == nil {
			continue
		}
		if below, ok := strings.CutPrefix(v.HostPath.Path, "/var/lib/kubelet/"); ok {
			v.HostPath.Path = "/var/lib/k0s/kubelet/" + below
			want = append(want, v)
		}
	}
	if diff := cmp.Diff(want, patch.Spec.Template.Spec.Volumes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestVariables checks that each documented command stops if one of its variables is not set, such as in a new shell.
func TestVariables(t *testing.T) {
	page, err := os.ReadFile("../../docs/install.md")
	check(t, err)
	for _, heading := range []string{"### Canary", "## Uninstall"} {
		text, err := markdown.Section(string(page), heading)
		check(t, err)
		variables := 0
		for _, line := range regexp.MustCompile(`(?m)^\$ .*`).FindAllString(text, -1) {
			for _, variable := range regexp.MustCompile(`\$\{?[A-Z]+\S?\S?`).FindAllString(line, -1) {
				variables++
				if !strings.Contains(variable, ":?") {
					t.Errorf("%s: variable %s without :? in %s", heading, variable, line)
				}
			}
		}
		if variables < 4 {
			t.Errorf("%s: %d variables found, want at least 4", heading, variables)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestDrain checks that the reconciler's disruption budget allows the eviction of a pod. It checks several numbers of
// replicas, because users can set reconciler.replicas in the chart. A budget with a minimum would forbid the eviction
// of a single replica.
func TestDrain(t *testing.T) {
	text, err := os.ReadFile(manifests + "base/reconciler/deployment.yaml")
	check(t, err)
	budgets := 0
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		budget := &policyv1.PodDisruptionBudget{}
		check(t, syaml.Unmarshal([]byte(document), budget))
		if budget.Kind != "PodDisruptionBudget" {
			continue
		}
		budgets++
		spec := budget.Spec
		for replicas := 1; replicas <= 3; replicas++ {
			// The disruption controller of Kubernetes calculates the allowed disruptions of healthy pods like this.
			least := 0
			if spec.MinAvailable != nil {
				least, err = intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, replicas, true)
				check(t, err)
			}
			if spec.MaxUnavailable != nil {
				most, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, replicas, true)
				check(t, err)
				least = max(replicas-most, 0)
			}
			if allowed := replicas - least; allowed != 1 {
				t.Errorf("with %d replicas, %d pods can be evicted, want 1", replicas, allowed)
			}
		}
	}
	if budgets != 1 {
		t.Errorf("%d disruption budgets, want 1", budgets)
	}
}
