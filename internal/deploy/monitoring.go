package deploy

import (
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Rules returns a PrometheusRule object for a file of rules. It copies the file's text unchanged, so the object
// contains the comments on the rules.
func Rules(name string, file []byte) ([]byte, error) {
	var rules map[string]any
	if err := yaml.UnmarshalStrict(file, &rules); err != nil {
		return nil, err
	}
	if groups, ok := rules["groups"].([]any); !ok || len(groups) == 0 || len(rules) != 1 {
		return nil, errors.New("file must have only the field groups")
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

// Component returns a kustomize component that lists files. The component has a name, because kustomize rejects a
// component without any content.
func Component(name string, files []string) ([]byte, error) {
	return YAML(map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component",
		"metadata": map[string]string{"name": name}, "resources": files,
	})
}
