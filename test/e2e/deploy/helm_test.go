//go:build e2e

package deploy_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"

	"github.com/gpuledger/gpuledger/test/markdown"
)

const (
	// helmEnv names the folder of helm, which tools/servers builds.
	helmEnv = "GPULEDGER_E2E_HELM"
	chart   = "../../../bin/chart/gpuledger"
	// chartSource also contains README.md and the test values in ci/.
	chartSource = "../../../charts/gpuledger/"
)

// published matches the chart's address in its README. The chart is not at this address before the first release.
var published = regexp.MustCompile(`oci://ghcr\.io/gpuledger/charts/gpuledger --version \S+`)

// TestHelmReadme runs the commands in the chart's README, from installation to removal. A local path replaces the
// chart's address.
func TestHelmReadme(t *testing.T) {
	text, err := os.ReadFile(chartSource + "README.md")
	check(t, err)
	steps := markdown.Commands(published.ReplaceAllString(string(text), absolute(t, chart)))
	if len(steps) != 5 {
		t.Fatalf("%d commands in the README, want 5: %q", len(steps), steps)
	}
	before, folder := settled(t), t.TempDir()
	t.Cleanup(func() { remove(t, "namespace", "gpuledger") })
	shell(t, folder, steps[0])
	installed := versions(t)
	if len(installed) < 15 {
		t.Errorf("%d objects after the installation, want at least 15", len(installed))
	}
	shell(t, folder, steps[1], steps[2])
	upgraded := versions(t)
	if len(upgraded) < len(installed)+10 {
		t.Errorf("%d objects after the upgrade, want at least ten more than %d", len(upgraded), len(installed))
	}
	for name, version := range installed {
		if upgraded[name] != version {
			t.Errorf("the upgrade changed %s", name)
		}
	}
	shell(t, folder, steps[3], steps[4])
	nothingLeft(t, before)
}

// TestHelm runs the chart with several files of values. A second apply must change no object. A server-side diff, as in
// Argo CD and Flux, must find no change. A change of an image must change only the objects that contain it. After the
// removal, no object may be left.
func TestHelm(t *testing.T) {
	withImage := map[string][]string{
		"everything":         {"DaemonSet gpuledger", "DaemonSet gpuledger-prepull"},
		"sidecar-everything": {"ConfigMap gpuledger-sidecar", "DaemonSet gpuledger-prepull"},
		"openshift":          {"DaemonSet gpuledger"},
	}
	for values, objects := range withImage {
		t.Run(values, func(t *testing.T) {
			before := settled(t)
			t.Cleanup(func() { remove(t, "namespace", "gpuledger") })
			arguments := "gpuledger " + absolute(t, chart) + " --namespace=gpuledger --values=" + absolute(t, chartSource+"ci/"+values+"-values.yaml")
			upgrade := "helm upgrade --install --create-namespace " + arguments
			shell(t, "", upgrade)
			first := versions(t)
			shell(t, "", upgrade)
			wantChanged(t, first, versions(t), nil)
			rendered := filepath.Join(t.TempDir(), "rendered.yaml")
			shell(t, "", "helm template --skip-tests --kube-version=1.37.0 "+arguments+" >"+rendered)
			for _, manager := range []string{flux, argo} {
				if out, err := try(t, "", "diff", "--server-side", "--force-conflicts", "--field-manager="+manager, "--filename="+rendered); err != nil {
					t.Errorf("%s: %v\n%s", manager, err, out)
				}
			}
			shell(t, "", upgrade+" --set=image.tag=v9")
			wantChanged(t, first, versions(t), objects)
			if strings.HasPrefix(values, "sidecar") {
				shell(t, "", "kubectl --namespace gpuledger delete configmap gpuledger-sidecar")
			}
			shell(t, "", "helm uninstall gpuledger --namespace gpuledger", "kubectl delete namespace gpuledger")
			nothingLeft(t, before)
		})
	}
}

// settled waits until the new controllers have created their accounts. It returns the objects in the cluster.
func settled(t *testing.T) []object {
	t.Helper()
	var objects []object
	eventually(t, "no object is added for a second", func() bool {
		before := len(objects)
		<-time.After(time.Second)
		objects = everything(t)
		return len(objects) == before
	})
	return objects
}

// versions returns the generation of each gpuledger object, by name, because the generation does not change with the
// status. For an object without a generation, it returns the resource version.
func versions(t *testing.T) map[string]string {
	t.Helper()
	out := shell(t, "", `kubectl get --all-namespaces --ignore-not-found --selector=app.kubernetes.io/managed-by=Helm `+
		`"$(kubectl api-resources --verbs=list --output=name | paste -sd, -)" `+
		`--output=go-template='{{range .items}}{{.kind}} {{.metadata.name}} {{or .metadata.generation .metadata.resourceVersion}}{{"\n"}}{{end}}'`)
	found := make(map[string]string)
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		found[fields[0]+" "+fields[1]] = fields[2]
	}
	return found
}

func wantChanged(t *testing.T, before, after map[string]string, want []string) {
	t.Helper()
	var got []string
	for _, object := range slices.Sorted(maps.Keys(after)) {
		if before[object] != after[object] {
			got = append(got, object)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changed objects (-want +got):\n%s", diff)
	}
}

// TestHelmNodes checks that helm prints the number of nodes on which the real DaemonSet controller creates a pod. If
// there are none, helm must print the command that labels nodes.
func TestHelmNodes(t *testing.T) {
	before := settled(t)
	t.Cleanup(func() { remove(t, "namespace", "gpuledger") })
	kubectl(t, "label", "node", "gpu-1", "example.com/rack=a")
	affinity := func(expression string) string {
		return ` --set-json='affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [` +
			`{"matchExpressions": [` + expression + `]}, {"matchExpressions": [{"key": "example.com/none", "operator": "Exists"}]}]}}}'`
	}
	tests := []struct{ values, want, label string }{
		{" --set=platform=", "2", ""},
		{" --set=platform=gpu-operator", "2", ""},
		{" --set=nodeSelector.example\\\\.com/rack=a", "1", ""},
		{affinity(`{"key": "example.com/rack", "operator": "NotIn", "values": ["a"]}`), "1", ""},
		{affinity(`{"key": "example.com/rack", "operator": "DoesNotExist"}, {"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true", "yes"]}`), "1", ""},
		{" --set=nodeSelector.disk=ssd", "0", "nvidia.com/gpu.present=true"},
		{" --set=platform=amd", "0", "feature.node.kubernetes.io/amd-gpu=true"},
		{" --set=platform=gke", "0", "cloud.google.com/gke-accelerator=TYPE"},
	}
	for _, tt := range tests {
		out := shell(t, "", "helm upgrade --install --create-namespace gpuledger "+absolute(t, chart)+" --namespace=gpuledger"+tt.values)
		const status = `{.metadata.generation} {.status.observedGeneration} {.status.desiredNumberScheduled}`
		eventually(t, "the controller wants "+tt.want+" pods"+tt.values, func() bool {
			fields := strings.Fields(kubectl(t, "--namespace=gpuledger", "get", "daemonset", "gpuledger", "--output=jsonpath="+status))
			return len(fields) == 3 && fields[0] == fields[1] && fields[2] == tt.want
		})
		want := "The exporter runs on " + tt.want + " of the cluster's nodes:"
		if tt.label != "" {
			want = "kubectl label node NODE " + tt.label + "\n"
		}
		if !strings.Contains(out, want) || strings.Contains(out, "WARNING: the exporter runs nowhere") != (tt.label != "") {
			t.Errorf("%s: notes without %q, or with another warning:\n%s", tt.values, want, out)
		}
	}
	kubectl(t, "label", "node", "gpu-1", "example.com/rack-")
	shell(t, "", "helm uninstall gpuledger --namespace gpuledger", "kubectl delete namespace gpuledger")
	nothingLeft(t, before)
}

// TestHelmRefusals checks that the chart refuses a second release. The chart must also refuse a change of the mode that
// would leave nodes without an exporter. Then the test changes the mode in both directions with the commands in the
// error messages and the notes. During each change, every node must have an exporter at every moment.
func TestHelmRefusals(t *testing.T) {
	before := settled(t)
	operator := installers[2]
	apply(t, "-f", operator.file())
	t.Cleanup(func() { remove(t, "namespace", "gpuledger") })
	arguments := " " + absolute(t, chart) + " --set=platform=gpu-operator,podMonitor.enabled=true,networkPolicy.enabled=true"
	upgrade := "helm upgrade --install --create-namespace gpuledger --namespace=gpuledger" + arguments
	shell(t, "", upgrade)
	for _, release := range []string{"gpuledger --namespace=another", "another --namespace=gpuledger"} {
		helmRefuses(t, "helm install --create-namespace "+release+arguments, "this cluster already has gpuledger, as the release gpuledger in the namespace gpuledger")
	}
	toSidecar(t, operator, upgrade+" --set=exporter.mode=sidecar --set=sidecar.nodes=")
	toDaemonSet(t, operator, upgrade)
	shell(t, "", "helm uninstall gpuledger --namespace gpuledger", "kubectl delete namespace gpuledger")
	remove(t, "-f", operator.file())
	nothingLeft(t, before)
}

func toSidecar(t *testing.T, i installer, command string) {
	t.Helper()
	var out string
	for _, nodes := range []string{"", "gpu-1", "'*'"} {
		out = helmRefuses(t, command+nodes, "before the device plugin's pods contain the exporter. Keep it until then: ")
	}
	_, keep, _ := strings.Cut(out, "Keep it until then: ")
	plugin := i.namespace + "/" + i.daemonSet
	shell(t, "", keep, command+"gpu-1")
	wantExporters(t, plugin, "gpuledger/gpuledger")
	notes := shell(t, "", command+"'*'")
	wantExporters(t, plugin, "gpuledger/gpuledger")
	wantPolicy(t, true)
	_, removal, _ := strings.Cut(notes, "are ready, remove this DaemonSet and upgrade again:\n\n")
	removal, _, _ = strings.Cut(removal, "\n")

	eventually(t, "the device plugin's pods contain the exporter", func() bool {
		for _, pod := range podsOf(t, i.namespace, i.daemonSet) {
			if !hasSidecar(&pod) {
				remove(t, "pod", "--namespace="+pod.Namespace, pod.Name)
				return false
			}
		}
		return true
	})
	// The controller can create pods only while the pods' service account exists.
	kubectl(t, "--namespace=gpuledger", "delete", "pod", "--selector=app.kubernetes.io/component=exporter")
	podsOf(t, "gpuledger", "gpuledger")
	shell(t, "", removal, command+"'*'")
	if out := kubectl(t, "--namespace=gpuledger", "get", "daemonset,serviceaccount", "--output=name"); strings.Contains(out, "daemonset") || strings.Contains(out, "exporter") {
		t.Errorf("objects of the DaemonSet are left:\n%s", out)
	}
	wantExporters(t, plugin)
	wantPolicy(t, false)
	shell(t, "", command+"gpu-1") // the mode does not change
}

func toDaemonSet(t *testing.T, i installer, command string) {
	t.Helper()
	out := helmRefuses(t, command, "would still get the exporter, beside the DaemonSet. Stop that first: ")
	_, stop, _ := strings.Cut(out, "Stop that first: ")
	stop, _, _ = strings.Cut(stop, ". After this upgrade")
	notes := shell(t, "", stop, command)
	wantExporters(t, "gpuledger/gpuledger")
	podsOf(t, "gpuledger", "gpuledger")
	for _, pod := range podsOf(t, i.namespace, i.daemonSet) {
		if !hasSidecar(&pod) {
			t.Error("the device plugin's pod lost the exporter before the DaemonSet's pods existed")
		}
	}
	restart := "kubectl --namespace " + i.namespace + " rollout restart daemonset/" + i.daemonSet
	if !strings.Contains(notes, restart+"\n") {
		t.Errorf("notes without %q:\n%s", restart, notes)
	}
	shell(t, "", restart)
	eventually(t, "the device plugin's pods no longer contain the exporter", func() bool {
		return !slices.ContainsFunc(podsOf(t, i.namespace, i.daemonSet), func(p core.Pod) bool { return hasSidecar(&p) })
	})
	if notes := shell(t, "", command); strings.Contains(notes, "rollout restart") {
		t.Errorf("the notes of the next upgrade restart the device plugin:\n%s", notes)
	}
}

// wantPolicy checks that the exporter's network policy exists only together with the exporter's DaemonSet.
func wantPolicy(t *testing.T, want bool) {
	t.Helper()
	policies := kubectl(t, "--namespace=gpuledger", "get", "networkpolicy", "--output=name")
	if strings.Contains(policies, "gpuledger-exporter") != want {
		t.Errorf("the exporter's network policy exists: %t, want %t:\n%s", !want, want, policies)
	}
}

func helmRefuses(t *testing.T, command, reason string) string {
	t.Helper()
	out, err := tryShell(t, "", command)
	if err == nil || !strings.Contains(out, reason) {
		t.Errorf("%s: %v, want the reason %q:\n%s", command, err, reason, out)
	}
	return out
}

// wantExporters checks that the reconciler and Prometheus read the pods of exactly the given DaemonSets.
func wantExporters(t *testing.T, daemonSets ...string) {
	t.Helper()
	if want, got := "--exporter.daemonsets="+strings.Join(daemonSets, ","), deploymentArguments(t); !slices.Contains(got, want) {
		t.Errorf("the reconciler's arguments are %v, want %s", got, want)
	}
	var namespaces []string
	for _, name := range daemonSets {
		namespace, _, _ := strings.Cut(name, "/")
		namespaces = append(namespaces, namespace)
	}
	const fields = `{.spec.namespaceSelector.matchNames} {.spec.podMetricsEndpoints[*].relabelings[?(@.action=="keep")].regex}`
	names, err := json.Marshal(namespaces)
	check(t, err)
	keep := strings.Join(daemonSets, "|")
	if got, want := kubectl(t, "--namespace=gpuledger", "get", "podmonitors.monitoring.coreos.com", "gpuledger", "--output=jsonpath="+fields), string(names)+" "+keep+" "+keep; got != want {
		t.Errorf("the PodMonitor selects %s, want %s", got, want)
	}
}
