package deploy

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Rules returns the Prometheus operator's object for a file of rules, whose text it
// holds as it is: comments are part of a rule.
func Rules(name string, file []byte) ([]byte, error) {
	var rules map[string]any
	if err := yaml.UnmarshalStrict(file, &rules); err != nil {
		return nil, err
	}
	if groups, ok := rules["groups"].([]any); !ok || len(groups) == 0 || len(rules) != 1 {
		return nil, errors.New("want the field groups and no other")
	}
	var out strings.Builder
	fmt.Fprintf(&out, `apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: gpuledger-%s
  namespace: gpuledger
  labels:
    app.kubernetes.io/name: gpuledger
    app.kubernetes.io/part-of: gpuledger
spec:
`, name)
	for line := range strings.Lines(string(file)) {
		if strings.TrimSpace(line) != "" {
			line = "  " + line
		}
		out.WriteString(line)
	}
	return []byte(out.String()), nil
}

// Dashboard returns the ConfigMap of a dashboard, as the sidecar of Grafana's chart
// looks for it.
func Dashboard(name string, file []byte) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "gpuledger-dashboard-" + name, Namespace: "gpuledger",
			Labels:      map[string]string{"app.kubernetes.io/name": "gpuledger", "app.kubernetes.io/part-of": Name, "grafana_dashboard": "1"},
			Annotations: map[string]string{"grafana_folder": "gpuledger"},
		},
		Data: map[string]string{name + ".json": string(file)},
	}
}

// Component returns a kustomize component of files. Its name keeps it from being empty,
// which kustomize refuses.
func Component(name string, files []string) ([]byte, error) {
	return YAML(map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component",
		"metadata": map[string]string{"name": name}, "resources": files,
	})
}
