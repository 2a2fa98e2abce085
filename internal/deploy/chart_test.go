//go:build e2e

package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/gpuledger/gpuledger/internal/app"
	"github.com/gpuledger/gpuledger/internal/deploy"
)

const (
	chartSource = "../../charts/gpuledger/"
	// chart is the output folder of make chart.
	chart = "../../bin/chart/gpuledger"
	// helmEnv is the variable with the folder of the helm that tools/servers built.
	helmEnv = "GPULEDGER_E2E_HELM"
)

// helm runs helm and returns its standard output. An error contains its standard error.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	folder := os.Getenv(helmEnv)
	if folder == "" {
		t.Fatalf("%s is not set: run the tests with make rendered", helmEnv)
	}
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), filepath.Join(folder, "helm"), args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return string(out), err
}

// template renders the chart in the namespace gpuledger. A Helm 3 that is built without its scripts
// assumes Kubernetes 1.20.
func template(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return helm(t, append([]string{"template", "gpuledger", chart, "--namespace=gpuledger", "--skip-tests", "--kube-version=1.37.0"}, args...)...)
}

// valuesOf returns the option with a file of values in charts/gpuledger/ci.
func valuesOf(name string) string { return "--values=" + chartSource + "ci/" + name + "-values.yaml" }

// TestChart checks that the chart renders the objects of the overlays and of the kustomizations in
// charts/gpuledger/ci, from the values beside them.
func TestChart(t *testing.T) {
	names, err := filepath.Glob(chartSource + "ci/*-values.yaml")
	check(t, err)
	if len(names) < 15 {
		t.Fatalf("%d files of values, want at least 15", len(names))
	}
	for _, file := range names {
		name := strings.TrimSuffix(filepath.Base(file), "-values.yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			overlay, err := os.ReadFile("../../bin/chart/ci/" + name + ".yaml")
			if os.IsNotExist(err) {
				overlay, err = os.ReadFile(rendering + name + ".yaml")
			}
			check(t, err)
			rendered, err := template(t, valuesOf(name))
			check(t, err)
			if diff := cmp.Diff(objects(t, string(overlay)), objects(t, rendered)); diff != "" {
				t.Errorf("objects (-overlay +chart):\n%s", diff)
			}
		})
	}
}

var hashOfArchive = regexp.MustCompile(`(gpuledger-archive)-[0-9a-z]{10}\b`)

// objects returns the objects of a text by kind, namespace and name, without the differences that
// the chart must have: Helm creates the namespace, objects have Helm's labels, and the archive's
// pods have an annotation in place of the hash in the name of their ConfigMap.
func objects(t *testing.T, text string) map[string]any {
	t.Helper()
	all := make(map[string]any)
	for document := range strings.SplitSeq("\n"+hashOfArchive.ReplaceAllString(text, "$1"), "\n---\n") {
		var object map[string]any
		check(t, yaml.Unmarshal([]byte(document), &object))
		if len(object) == 0 || object["kind"] == "Namespace" {
			continue
		}
		labels, _ := at(object, "metadata", "labels").(map[string]any)
		delete(labels, "helm.sh/chart")
		delete(labels, "app.kubernetes.io/managed-by")
		if pod, _ := at(object, "spec", "template", "metadata").(map[string]any); object["kind"] == "Deployment" {
			annotations, _ := pod["annotations"].(map[string]any)
			if delete(annotations, "checksum/config"); len(annotations) == 0 {
				delete(pod, "annotations")
			}
		}
		key := fmt.Sprint(object["kind"], at(object, "metadata", "namespace"), at(object, "metadata", "name"))
		if all[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		all[key] = object
	}
	return all
}

// TestChartLint checks the chart with helm's own rules.
func TestChartLint(t *testing.T) {
	if out, err := helm(t, "lint", "--strict", chart); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestChartValues checks that every value changes the objects in both modes of the exporter, or is rejected by its name, and that
// an unknown key beside it is an error. Keys in global may be for other charts of the release.
func TestChartValues(t *testing.T) {
	text, err := os.ReadFile(chartSource + "values.yaml")
	check(t, err)
	values, err := deploy.Values(text)
	check(t, err)
	sections := make(map[string]bool)
	for _, v := range values {
		if v.Default == nil {
			continue
		}
		sections[strings.Join(v.Path[:len(v.Path)-1], ".")] = true
		for _, mode := range []string{"daemonset", "sidecar"} {
			t.Run(mode+"/"+v.Name(), func(t *testing.T) {
				t.Parallel()
				checkValue(t, &v, baseOf(v.Path[0], mode))
			})
		}
	}
	delete(sections, "global")
	for section := range sections {
		set := "--set=" + strings.TrimPrefix(section+".unknownKey=1", ".")
		if _, err := template(t, set); err == nil || !strings.Contains(err.Error(), "unknownKey") {
			t.Errorf("%s: %v, want an error that names the key", set, err)
		}
	}
}

// baseOf returns values beside which the values of a section have an effect.
func baseOf(section, mode string) []string {
	args := []string{valuesOf("everything")}
	if mode == "sidecar" {
		args = []string{
			valuesOf("sidecar-everything"), "--set-json=archive=" + `{"enabled": true, "cluster": "example", "events": {"enabled": true, "cluster": "example", "existingSecret": "gpuledger-events"}}`,
			"--set-json=reconciler.labels.enabled=true", "--set-json=dcgm.enabled=true",
		}
	}
	switch section {
	case "exporter": // the modes reject values of each other
		return []string{"--set-json=platform=" + `"gpu-operator"`, "--set-json=exporter.mode=" + strconv.Quote(mode)}
	case "service":
		args = append(args, "--set-json=service.enable=true") // --set has precedence over --set-json
	case "clusterPodMonitoring":
		args = append(args, "--set-json="+section+`={"enabled": true, "trustAllNamespaces": true}`)
	case "serviceMonitor":
		args = append(args, "--set-json=serviceMonitor.enabled=true", "--set-json=podMonitor.enabled=false")
	case "dashboards", "prometheusRule":
		args = append(args, "--set-json="+section+".enabled=true")
	default: // helm is faster without the largest objects
		args = append(args, "--set=dashboards.enabled=false,prometheusRule.enabled=false")
	}
	return args
}

// checkValue checks that one of some other values of a setting changes the objects, or is rejected.
func checkValue(t *testing.T, v *deploy.Value, base []string) {
	t.Helper()
	before, err := template(t, base...)
	check(t, err)
	others := []string{another(t, v)}
	if _, is := v.Default.(bool); is {
		others = []string{"true", "false"}
	}
	for _, choice := range v.Choices {
		others = append(others, strconv.Quote(choice))
	}
	for _, other := range others {
		after, err := template(t, append(base, "--set-json="+v.Name()+"="+other)...)
		if err == nil && after != before || err != nil && (strings.Contains(err.Error(), v.Name()+" has no effect") || strings.Contains(err.Error(), "with "+v.Name()+"=")) {
			return
		}
	}
	t.Errorf("none of %v has an effect or is rejected", others)
}

// another64 is a digest of an image.
const another64 = `"sha256:0000000000000000000000000000000000000000000000000000000000000000"`

// special are new values of settings that do not accept any value.
var special = map[string]string{
	"affinity":                          `{"podAntiAffinity": {}}`,
	"archive.affinity":                  `{"podAntiAffinity": {}}`,
	"archive.extraEnv":                  `[{"name": "ANOTHER"}]`,
	"archive.image.digest":              another64,
	"archive.resources":                 `{"limits": {"memory": "1Gi"}}`,
	"archive.store.httpConfigFile":      `"/another"`,
	"archive.tolerations":               `[{"operator": "Exists"}]`,
	"archive.topologySpreadConstraints": `[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]`,
	"dcgm.address":                      `"another:1"`,
	"dcgm.fields":                       `"/another"`,
	"extraEnv":                          `[{"name": "ANOTHER"}]`,
	"extraVolumeMounts":                 `[{"name": "another", "mountPath": "/another"}]`,
	"image.digest":                      another64,
	"kubeletPath":                       `"/another"`,
	"podMonitor.interval":               `"45s"`,
	"reconciler.affinity":               `{"podAntiAffinity": {}}`,
	"reconciler.extraEnv":               `[{"name": "ANOTHER"}]`,
	"reconciler.image.digest":           another64,
	"reconciler.resources":              `{"limits": {"memory": "1Gi"}}`,
	"reconciler.tolerations":            `[{"operator": "Exists"}]`,
	"resources":                         `{"limits": {"memory": "1Gi"}}`,
	"securityContext.seLinuxOptions":    `{"type": "another_t"}`,
	"serviceMonitor.interval":           `"45s"`,
	"tolerations":                       `[{"operator": "Exists"}]`,
	"updateStrategy":                    `{"type": "OnDelete"}`,
	"extraHostVolumes":                  `[{"name": "another", "hostPath": "/another"}]`,
	"imagePullSecrets":                  `[{"name": "another"}]`,
	"prometheusRule.disabled":           `{"GPULedgerExporterMissing": true}`,
	"podMonitor.tlsConfig":              `{"serverName": "another"}`,
	"podMonitor.relabelings":            `[{"targetLabel": "another"}]`,
	"serviceMonitor.tlsConfig":          `{"serverName": "another"}`,
	"serviceMonitor.relabelings":        `[{"targetLabel": "another"}]`,
	"reconciler.owners":                 `[{"group": "example.com", "resources": ["another"]}]`,
}

// another returns a value that differs from the default and from those in charts/gpuledger/ci.
func another(t *testing.T, v *deploy.Value) string {
	t.Helper()
	if text := special[v.Name()]; text != "" {
		return text
	}
	var value any
	switch d := v.Default.(type) {
	case string:
		value = "another"
	case float64:
		value = d + 1
	case []any:
		value = []any{"another"}
	case map[string]any:
		value = map[string]any{"another": "x"}
	}
	text, err := json.Marshal(value)
	check(t, err)
	return string(text)
}

// TestChartNamespace checks that in another namespace no object is in the namespace gpuledger or
// refers to it.
func TestChartNamespace(t *testing.T) {
	for _, base := range []string{"everything", "sidecar-everything"} {
		text, err := template(t, valuesOf(base), "--set=dashboards.enabled=false", "--set=prometheusRule.enabled=false", "--set=namespaceOverride=elsewhere")
		check(t, err)
		for line := range strings.Lines(text) {
			for _, part := range []string{"namespace: gpuledger", "serviceaccount:gpuledger:", "gpuledger/gpuledger", "gpuledger-archive.gpuledger", "- gpuledger\n"} {
				if strings.Contains(line, part) && !strings.Contains(line, "image: ") {
					t.Errorf("%s: %s", base, strings.TrimSpace(line))
				}
			}
		}
	}
}

// TestChartKubernetes checks which clusters and values the chart rejects, with a reason.
func TestChartKubernetes(t *testing.T) {
	tests := []struct {
		args []string
		want string // a part of the error, or empty
	}{
		{[]string{"--kube-version=1.30.0"}, ""},
		{[]string{"--kube-version=1.29.9"}, "1.30"},
		{[]string{"--kube-version=1.36.2", valuesOf("operator")}, ""},
		{[]string{"--kube-version=1.35.0", valuesOf("operator")}, ""},
		{[]string{"--kube-version=1.35.0", valuesOf("operator"), "--set=sidecar.injector=policy"}, "sidecar.injector=webhook"},
		{[]string{valuesOf("webhook"), "--set=reconciler.enabled=false"}, "needs reconciler.enabled"},
		{[]string{valuesOf("operator"), "--set=sidecar.webhook.existingSecret=x"}, "no effect with an admission policy"},
		{[]string{"--kube-version=1.35.0", "--api-versions=admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy", valuesOf("operator")}, ""},
		{[]string{"--set=exporter.mode=sidecar"}, "needs devicePlugin.namespace"},
		{[]string{"--set=exporter.mode=sidecar,devicePlugin.namespace=nvidia"}, ""},
		{[]string{valuesOf("operator"), "--set=platform=gke"}, "platform is gke: use exporter.mode=daemonset"},
		{[]string{"--set=podMonitor.enabled=true,serviceMonitor.enabled=true"}, "scrape every exporter twice"},
		{[]string{"--set=clusterPodMonitoring.enabled=true"}, "with clusterPodMonitoring.trustAllNamespaces=true"},
	}
	for _, tt := range tests {
		_, err := template(t, tt.args...)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want the error %q", tt.args, err, tt.want)
		}
	}
}

// TestChartOwners checks that kinds of the values become a role that the role for owners includes, with
// get only, and that other forms are rejected.
func TestChartOwners(t *testing.T) {
	rendered, err := template(t, valuesOf("standalone"), `--set-json=reconciler.owners=[{"group": "example.com", "resources": ["trainings", "sweeps"]}]`)
	check(t, err)
	all := objects(t, rendered)
	selector := list(at(all["ClusterRole<nil>gpuledger-reconciler-owners"], "aggregationRule", "clusterRoleSelectors"))
	role := all["ClusterRole<nil>gpuledger-reconciler-owners-values"]
	labels, _ := at(role, "metadata", "labels").(map[string]any)
	want := []any{map[string]any{"apiGroups": []any{"example.com"}, "resources": []any{"trainings", "sweeps"}, "verbs": []any{"get"}}}
	if diff := cmp.Diff(want, list(at(role, "rules"))); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	for key, value := range at(selector[0], "matchLabels").(map[string]any) {
		if labels[key] != value {
			t.Errorf("the label %s is %v, want %v", key, labels[key], value)
		}
	}
	for _, wrong := range []string{`["trainings"]`, `[{"group": "example.com"}]`, `[{"group": "example.com", "resources": ["trainings"], "verbs": ["*"]}]`} {
		if _, err := template(t, "--set-json=reconciler.owners="+wrong); err == nil || !strings.Contains(err.Error(), "/reconciler/owners/0") {
			t.Errorf("%s: %v, want an error that names the value", wrong, err)
		}
	}
}

// TestChartInjector checks for Kubernetes versions and APIs which kind of admission adds the sidecar, and that the
// values of the webhook have an effect.
func TestChartInjector(t *testing.T) {
	const policy, webhook = "MutatingAdmissionPolicygpuledger", "MutatingWebhookConfigurationgpuledger"
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--kube-version=1.36.0"}, policy},
		{[]string{"--kube-version=1.35.9"}, webhook},
		{[]string{"--kube-version=1.30.0"}, webhook},
		{[]string{"--kube-version=1.34.0", "--api-versions=admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy"}, policy},
		{[]string{"--kube-version=1.36.0", "--set=sidecar.injector=webhook"}, webhook},
	}
	for _, tt := range tests {
		text, err := template(t, append(tt.args, valuesOf("operator"))...)
		check(t, err)
		got := ""
		for key := range objects(t, text) {
			for _, kind := range []string{policy, webhook} {
				if strings.ReplaceAll(key, "<nil>", "") == kind {
					got += kind
				}
			}
		}
		if got != tt.want {
			t.Errorf("%v: %q, want %q", tt.args, got, tt.want)
		}
	}
	text, err := template(t, valuesOf("webhook"), "--set=sidecar.webhook.existingSecret=mine,sidecar.webhook.annotations.a=b,namespaceOverride=elsewhere")
	check(t, err)
	for _, part := range []string{"--webhook.certificates=/etc/gpuledger/webhook", "secretName: mine", "a: b", "namespace: elsewhere"} {
		if !strings.Contains(text, part) {
			t.Errorf("the objects do not contain %q", part)
		}
	}
	if strings.Contains(text, "kind: Secret") || strings.Contains(text, "namespace: gpuledger\n") || strings.Contains(text, "serviceaccount:gpuledger:") {
		t.Error("the objects contain the Secret of the reconciler's certificates, or the default namespace")
	}
}

// TestChartDevicePlugin checks the network policy of the device plugin's pods: by default it is the
// component's policy, and labels of the values replace the platform's labels.
func TestChartDevicePlugin(t *testing.T) {
	tests := []struct{ values, namespace, component string }{
		{"operator", "gpu-operator", "isolation-operator"},
		{"amd-sidecar", "kube-system", "isolation-amd"},
	}
	for _, tt := range tests {
		policy := func(args ...string) any {
			text, err := template(t, append(args, valuesOf(tt.values), "--set=networkPolicy.enabled=true")...)
			check(t, err)
			return objects(t, text)["NetworkPolicy"+tt.namespace+"gpuledger-sidecar"]
		}
		component, err := os.ReadFile("../../manifests/components/" + tt.component + "/networkpolicy.yaml")
		check(t, err)
		want := objects(t, string(component))["NetworkPolicy"+tt.namespace+"gpuledger-sidecar"]
		if diff := cmp.Diff(want, policy()); diff != "" || want == nil {
			t.Errorf("%s (-component +chart):\n%s", tt.values, diff)
		}
		labels := at(policy("--set=devicePlugin.podLabels.app=another"), "spec", "podSelector", "matchLabels")
		if diff := cmp.Diff(map[string]any{"app": "another"}, labels); diff != "" {
			t.Errorf("%s: labels (-want +got):\n%s", tt.values, diff)
		}
	}
}

// TestChartTests checks the objects of "helm test": the pod's command and rights, and that its Service
// selects the exporters. make e2e-kubelet runs it.
func TestChartTests(t *testing.T) {
	for _, name := range []string{"standalone", "amd", "everything"} {
		text, err := helm(t, "template", "gpuledger", chart, "--namespace=gpuledger", "--kube-version=1.37.0", valuesOf(name), "--set=web.existingSecret=")
		check(t, err)
		all := objects(t, text)
		document, err := json.Marshal(all["Podgpuledgergpuledger-test"])
		check(t, err)
		var pod corev1.Pod
		check(t, json.Unmarshal(document, &pod))
		if len(pod.Spec.Containers) != 1 {
			t.Fatalf("%s: %d containers, want 1", name, len(pod.Spec.Containers))
		}
		c := &pod.Spec.Containers[0]
		checkPrivileges(t, &pod.Spec, c)
		if _, err := app.Parse(c.Args, os.Getenv); err != nil {
			t.Errorf("%s: %v: %v", name, c.Args, err)
		}
		if got := len(c.Env) == 0; got != (name == "amd") {
			t.Errorf("%s: variables %v, want none only for AMD", name, c.Env)
		}
		selector, _ := at(all["Servicegpuledgergpuledger-test-exporters"], "spec", "selector").(map[string]any)
		labels, _ := at(all["DaemonSetgpuledgergpuledger"], "spec", "template", "metadata", "labels").(map[string]any)
		if diff := cmp.Diff(labels, selector); diff != "" || len(selector) == 0 {
			t.Errorf("%s: selector (-pods +Service):\n%s", name, diff)
		}
		if policy := all["NetworkPolicygpuledgergpuledger-test"] != nil; policy != (name == "everything") {
			t.Errorf("%s: a network policy: %v", name, policy)
		}
	}
}

// TestChartImages checks that Artifact Hub scans the images of the values.
func TestChartImages(t *testing.T) {
	text, err := os.ReadFile(chartSource + "Chart.yaml")
	check(t, err)
	var chart struct{ Annotations map[string]string }
	check(t, yaml.Unmarshal(text, &chart))
	var images []struct{ Name, Image string }
	check(t, yaml.Unmarshal([]byte(chart.Annotations["artifacthub.io/images"]), &images))
	values, err := os.ReadFile(chartSource + "values.yaml")
	check(t, err)
	for _, image := range images {
		repository, tag, _ := strings.Cut(image.Image, ":")
		if ":"+tag != deploy.Tag || !strings.Contains(string(values), "repository: "+repository+"\n") {
			t.Errorf("%s: %s is not an image of the values with the tag %s", image.Name, image.Image, deploy.Tag)
		}
	}
	if want := strings.Count(string(values), "repository: "); len(images) != want {
		t.Errorf("%d images, want %d", len(images), want)
	}
	for _, key := range []string{"links", "changes"} {
		var list []struct{ Name, Kind string }
		if err := yaml.Unmarshal([]byte(chart.Annotations["artifacthub.io/"+key]), &list); err != nil || len(list) == 0 {
			t.Errorf("%s: %v, %v", key, list, err)
		}
	}
}

// TestChartVersion checks that the chart and its README have the version of the manifests.
func TestChartVersion(t *testing.T) {
	text, err := os.ReadFile(chartSource + "Chart.yaml")
	check(t, err)
	var got struct{ Version, AppVersion string }
	check(t, yaml.Unmarshal(text, &got))
	if ":"+got.AppVersion != deploy.Tag || "v"+got.Version != got.AppVersion {
		t.Errorf("the chart has the version %s of %s, want %s", got.Version, got.AppVersion, deploy.Tag)
	}
	readme, err := os.ReadFile(chartSource + "README.md")
	check(t, err)
	if n := bytes.Count(readme, []byte("--version "+got.Version+" ")); n != 2 {
		t.Errorf("the README names the version %d times, want twice", n)
	}
}

// TestChartServiceMonitor checks that the ServiceMonitor scrapes as the PodMonitor does, and selects
// the Service, in both modes.
func TestChartServiceMonitor(t *testing.T) {
	for _, mode := range []string{"standalone", "operator"} {
		render := func(kind string) map[string]any {
			text, err := template(t, valuesOf(mode), "--set="+kind+".enabled=true")
			check(t, err)
			return objects(t, text)
		}
		namespace := map[string]string{"standalone": "gpuledger", "operator": "gpu-operator"}[mode]
		pods, services := render("podMonitor"), render("serviceMonitor")
		monitor, service := services["ServiceMonitorgpuledgergpuledger"], services["Service"+namespace+"gpuledger"]
		want := list(at(pods["PodMonitorgpuledgergpuledger"], "spec", "podMetricsEndpoints"))
		for _, endpoint := range want {
			for _, rule := range list(at(endpoint, "relabelings")) {
				if rule, _ := rule.(map[string]any); rule["action"] == "labeldrop" {
					rule["regex"] = "(pod|container|endpoint|namespace|service)"
				}
			}
		}
		if diff := cmp.Diff(want, list(at(monitor, "spec", "endpoints"))); diff != "" || len(want) != 2 {
			t.Errorf("%s: endpoints (-PodMonitor +ServiceMonitor):\n%s", mode, diff)
		}
		if diff := cmp.Diff([]any{namespace}, at(monitor, "spec", "namespaceSelector", "matchNames")); diff != "" {
			t.Errorf("%s: namespaces (-want +got):\n%s", mode, diff)
		}
		labels, _ := at(service, "metadata", "labels").(map[string]any)
		selector, _ := at(monitor, "spec", "selector", "matchLabels").(map[string]any)
		for key, value := range selector {
			if labels[key] != value {
				t.Errorf("%s: the Service's label %s is %v, want %v", mode, key, labels[key], value)
			}
		}
		if len(selector) == 0 || services["PodMonitorgpuledgergpuledger"] != nil || services["PodMonitorgpuledgergpuledger-reconciler"] == nil {
			t.Errorf("%s: no selector, or another set of PodMonitors", mode)
		}
	}
}
