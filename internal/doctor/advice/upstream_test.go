package advice_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/gpuledger/gpuledger/internal/deploy"
	"github.com/gpuledger/gpuledger/internal/doctor/advice"
	"github.com/gpuledger/gpuledger/internal/sidecar"
	"github.com/gpuledger/gpuledger/podmapper"
	"github.com/gpuledger/gpuledger/test/markdown"
)

func table(t *testing.T) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/install.md")
	check(t, err)
	section, err := markdown.Section(string(text), "## Choose an overlay")
	check(t, err)
	link := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	for line := range strings.SplitSeq(section, "\n") {
		if !strings.HasPrefix(line, "| ") && rows != nil && !strings.HasPrefix(line, "|---") {
			break
		}
		if strings.HasPrefix(line, "| ") {
			line = strings.NewReplacer("**", "", "`", "").Replace(link.ReplaceAllString(line, "$1"))
			rows = append(rows, strings.Split(strings.Trim(line, "| "), " | "))
		}
	}
	return rows[1:] // without the heading row of the table
}

// unreached contains the rows of the table that fit no cluster in testdata, and the reason for each row.
var unreached = map[string]string{
	"Helm chart or static manifest, Kubernetes ≥ 1.30":               "the report names it beside the row without a change of the pods",
	"one of these clusters on 1.30 or newer, without the policy API": "likewise",
	"GPU Operator, if its device plugin must not restart":            "the report names it beside the other row of the GPU Operator",
	"EKS on Amazon Linux": "it refers to the rows of the device plugin, which eks-al2023 has",
}

// TestRows checks that the program and docs/install.md have the same rows, and that testdata contains a cluster for the
// overlay of each row.
func TestRows(t *testing.T) {
	documented := table(t)
	var names []string
	for _, row := range documented {
		names = append(names, row[0])
	}
	if diff := cmp.Diff(names, advice.Rows()); diff != "" {
		t.Fatalf("(-docs/install.md +program):\n%s", diff)
	}
	overlays := make(map[string]string)
	for name, c := range clusters {
		for i, row := range strings.Split(c.rows, "; ") {
			overlays[row] += " " + strings.Split(c.overlays, "; ")[i]
		}
		if _, err := os.Stat("testdata/clusters/" + name + ".txt"); err != nil {
			t.Error(err)
		}
	}
	for i, row := range documented {
		if overlays[row[0]] == "" && unreached[row[0]] == "" {
			t.Errorf("no cluster in testdata fits the row %q", row[0])
		}
		cell := row[1]
		if cell == "the same" {
			cell = documented[i-1][1]
		}
		// The first word of the cell is the overlay, unless the cell contains a sentence.
		overlay, _, _ := strings.Cut(cell, " ")
		if overlay == "none:" || overlay == "no" || overlay == "as" || strings.Contains(cell, ":") || overlay == "the" || overlay == "its" {
			continue
		}
		for got := range strings.FieldsSeq(overlays[row[0]]) {
			if base, _, _ := strings.Cut(got, "+"); base != overlay {
				t.Errorf("%q has the overlay %s, want %s", row[0], base, overlay)
			}
		}
	}
}

// TestOverlays checks that each overlay exists, and that the chart creates the same objects with the overlay's values.
func TestOverlays(t *testing.T) {
	for overlay, got := range advice.OverlayValues() {
		if _, err := os.Stat("../../../manifests/overlays/" + overlay); err != nil {
			t.Error(err)
		}
		text, err := os.ReadFile("../../../charts/gpuledger/ci/" + overlay + "-values.yaml")
		check(t, err)
		var values map[string]any
		check(t, yaml.Unmarshal(text, &values))
		delete(values, "devicePlugin") // these values come from the cluster
		var want []string
		for key, value := range values {
			if section, ok := value.(map[string]any); ok {
				for name, v := range section {
					want = append(want, key+"."+name+"="+v.(string))
				}
				continue
			}
			want = append(want, key+"="+value.(string))
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: values %v, want %v", overlay, got, want)
		}
	}
}

// TestNamed checks that the program's table contains, for each overlay with a policy, the DaemonSet in the reconciler's
// argument.
func TestNamed(t *testing.T) {
	exporters := regexp.MustCompile(`name: EXPORTERS\n\s+value: (\S+)`)
	got := make(map[string]string)
	files, err := filepath.Glob("../../../manifests/overlays/*/kustomization.yaml")
	check(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(t, err)
		if match := exporters.FindSubmatch(text); match != nil {
			got[filepath.Base(filepath.Dir(file))] = string(match[1])
		}
	}
	if diff := cmp.Diff(got, advice.Sidecars()); diff != "" {
		t.Errorf("(-overlays +program):\n%s", diff)
	}
}

// TestLabels checks that the program's labels for Nodes with GPUs are exactly the labels that select nodes in the
// overlays and in the component prepull.
func TestLabels(t *testing.T) {
	want := make(map[string]bool)
	files, err := filepath.Glob("../../../manifests/*/*/*.yaml")
	check(t, err)
	requirement := regexp.MustCompile(`key: (\S+?),? *\n? *operator: (?:In|Exists)`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(t, err)
		for _, match := range requirement.FindAllSubmatch(text, -1) {
			want[string(match[1])] = true
		}
	}
	// These keys do not mark Nodes with GPUs. Some belong to taints, to the reconciler's Nodes or to the policy's
	// namespaces. The last key is the type of a cloud machine, with or without GPUs.
	for _, key := range []string{"amd.com/gpu", "nvidia.com/gpu", "node-role.kubernetes.io/control-plane", "kubernetes.io/metadata.name", "node.kubernetes.io/instance-type"} {
		delete(want, key)
	}
	got := make(map[string]bool)
	for _, label := range advice.GPULabels() {
		got[label] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-manifests +program):\n%s", diff)
	}
	if advice.GPUResources() != podmapper.DefaultResources {
		t.Errorf("resources %s, want %s", advice.GPUResources(), podmapper.DefaultResources)
	}
}

// conditions contains the policy's expressions that conditions.go implements. Before you change an expression here,
// change conditions.go. test/e2e/deploy compares the results of conditions.go and of the policy for real pods.
var conditions = map[string]string{
	"created-by-the-daemonset-controller": "request.userInfo.username in ['system:serviceaccount:kube-system:daemon-set-controller', 'system:kube-controller-manager']",
	"owned-by-a-daemonset":                "object.metadata.?ownerReferences.orValue([]).exists(o, o.kind == 'DaemonSet' && o.?controller.orValue(false))",
	"is-a-device-plugin":                  "object.spec.containers.exists(c, c.name in ['nvidia-device-plugin-ctr', 'nvidia-device-plugin', 'amdgpu-dp-cntr', 'amdgpu-dp-cntr-health', 'amd-gpu-dp-cntr'])",
	"is-dcgm-exporter":                    "object.spec.containers.exists(c, c.name in ['nvidia-dcgm-exporter', 'dcgm-exporter'] || c.name == 'exporter' && c.?image.orValue('').contains('dcgm-exporter'))",
	"is-an-mps-control-daemon":            "object.spec.containers.exists(c, c.name == 'mps-control-daemon-ctr')",
	"runs-linux":                          "object.spec.?os.name.orValue('linux') == 'linux' && object.spec.?nodeSelector[?'kubernetes.io/os'].orValue('linux') == 'linux'",
	"shares-no-processes":                 "!object.spec.?shareProcessNamespace.orValue(false)",
	"has-a-network-of-its-own":            "!object.spec.?hostNetwork.orValue(false)",
	"has-users-of-the-host":               "!has(object.spec.hostUsers) || object.spec.hostUsers",
	"has-no-resources-of-its-own":         "!has(object.spec.resources)",
	"not-yet": "!(object.spec.containers + object.spec.?initContainers.orValue([])).exists(c, c.name == 'gpuledger') && " +
		"!object.spec.?volumes.orValue([]).exists(v, v.name.startsWith('gpuledger-'))",
	"has-an-image": "params.?data.?image.orValue('').trim().matches('^[!-~]+$')",
	"names-secrets": "params.?data.?webSecret.orValue('').trim().matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$') && " +
		`params.?data.?pullSecrets.orValue('').replace(',', ' ').replace('\n', ' ').split(' ').filter(w, w != '').all(s, s.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$'))`,
	"is-on-a-chosen-node": `'*' in params.?data.?nodes.orValue('').replace(',', ' ').replace('\n', ' ').split(' ').filter(w, w != '') || ` +
		"object.spec.?affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.orValue([])" +
		".exists(t, t.?matchFields.orValue([]).exists(f, f.key == 'metadata.name' && f.?values.orValue([]).exists(n, n in " +
		`params.?data.?nodes.orValue('').replace(',', ' ').replace('\n', ' ').split(' ').filter(w, w != ''))))`,
}

// TestConditions checks that the program implements each condition of the policy, and that no expression of
// the policy has changed.
func TestConditions(t *testing.T) {
	got := make(map[string]string)
	var names []string
	all := deploy.Policy().Spec.MatchConditions
	for _, patch := range deploy.HostPatches() {
		for _, operation := range patch {
			if c, is := operation.Value.(admissionv1.MatchCondition); is {
				all = append(all, c)
			}
		}
	}
	for _, c := range all {
		got[c.Name] = c.Expression
		names = append(names, c.Name)
	}
	for _, c := range deploy.Webhook().Webhooks[0].MatchConditions {
		if got[c.Name] != c.Expression {
			t.Errorf("the webhook has a different condition %s", c.Name)
		}
	}
	if diff := cmp.Diff(conditions, got); diff != "" {
		t.Errorf("(-decided +policy):\n%s", diff)
	}
	slices.Sort(names)
	if diff := cmp.Diff(names, advice.Conditions()); diff != "" {
		t.Errorf("(-policy +reasons):\n%s", diff)
	}
	if deploy.ParametersNamespace != advice.Namespace || deploy.Policy().Name != "gpuledger" || sidecar.ParametersName != "gpuledger-sidecar" {
		t.Error("the names of the policy changed")
	}
}

func TestExporterSet(t *testing.T) {
	d := deploy.DaemonSet()
	s := load(t, "well")
	for _, o := range s.Objects {
		if m := o["metadata"].(map[string]any); o["kind"] == "DaemonSet" && m["name"] == "gpuledger" {
			text, err := yaml.Marshal(o)
			check(t, err)
			var got appsv1.DaemonSet
			check(t, yaml.Unmarshal(text, &got))
			if diff := cmp.Diff(d.Labels, got.Labels); diff != "" {
				t.Errorf("labels (-manifests +testdata):\n%s", diff)
			}
			if got.Spec.Template.Spec.Containers[0].Name != d.Spec.Template.Spec.Containers[0].Name {
				t.Error("the exporter's container has another name")
			}
		}
	}
}
