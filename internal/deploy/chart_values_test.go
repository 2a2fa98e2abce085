//go:build e2e

package deploy_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/deploy"
)

// TestChartValues checks every value of the chart, for both modes of the exporter. A changed value must change the
// objects, or the chart must reject it with an error that contains the name of the value. An unknown key next to a
// value must cause an error. Only global may contain unknown keys, because they may belong to other charts of the
// release.
func TestChartValues(t *testing.T) {
	text, err := os.ReadFile(chartSource + "values.yaml")
	check(t, err)
	values, err := deploy.Values(text)
	check(t, err)
	sections, unchanged := make(map[string]bool), make(map[string]string) // unchanged contains rendered objects by arguments
	for _, v := range values {
		if v.Default == nil {
			continue
		}
		sections[strings.Join(v.Path[:len(v.Path)-1], ".")] = true
		for _, mode := range []string{"daemonset", "sidecar"} {
			base := baseOf(v.Path[0], mode)
			key := strings.Join(base, " ")
			if unchanged[key] == "" {
				unchanged[key], err = template(t, base...)
				check(t, err)
			}
			before := unchanged[key]
			t.Run(mode+"/"+v.Name(), func(t *testing.T) {
				t.Parallel()
				checkValue(t, &v, base, before)
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

// baseOf returns the values that must be set so that a section's values have an effect.
func baseOf(section, mode string) []string {
	args := []string{valuesOf("everything")}
	if mode == "sidecar" {
		args = []string{
			valuesOf("sidecar-everything"), "--set-json=archive=" + `{"enabled": true, "cluster": "example", "events": {"enabled": true, "cluster": "example", "existingSecret": "gpuledger-events"}}`,
			"--set-json=reconciler.labels.enabled=true", "--set-json=dcgm.enabled=true",
		}
	}
	switch section {
	case "exporter": // each mode rejects values of the other mode
		return []string{"--set-json=platform=" + `"gpu-operator"`, "--set-json=exporter.mode=" + strconv.Quote(mode)}
	case "service":
		args = append(args, "--set-json=service.enable=true") // --set has precedence over --set-json
	case "archive":
		args = append(args, "--set-json=archive.web="+`{"enabled": true, "insecure": true, "service": {"enabled": true}}`, "--set-json=archive.chain.keySecret="+`"gpuledger-chain"`,
			"--set=dashboards.enabled=false,prometheusRule.enabled=false,networkPolicy.enabled=true")
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

// checkValue sets a setting to other values than its default. At least one of these values must change the rendered
// objects or must be rejected.
func checkValue(t *testing.T, v *deploy.Value, base []string, before string) {
	t.Helper()
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

const another64 = `"sha256:0000000000000000000000000000000000000000000000000000000000000000"`

var special = map[string]string{
	"affinity":                          `{"podAntiAffinity": {}}`,
	"archive.web.from":                  `[{"podSelector": {"matchLabels": {"app": "another"}}}]`,
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

// another returns a value for a setting. The value differs from the setting's default and from its values in
// charts/gpuledger/ci.
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

// TestChartKubernetes checks which Kubernetes versions and which values the chart rejects. The error must contain the
// reason.
func TestChartKubernetes(t *testing.T) {
	tests := []struct {
		args []string
		want string // part of the error; empty if the chart renders
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
