package deploy

import (
	"bytes"
	"encoding/json"

	"sigs.k8s.io/yaml"
)

// YAML marshals documents. It omits the status, because only the API server sets the status. It also omits the empty
// fields that Go types write for zero values.
func YAML(documents ...any) ([]byte, error) {
	var out bytes.Buffer
	for i, document := range documents {
		if i > 0 {
			out.WriteString("---\n")
		}
		text, err := json.Marshal(document)
		if err != nil {
			return nil, err
		}
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			return nil, err
		}
		prune(value)
		if text, err = yaml.Marshal(value); err != nil {
			return nil, err
		}
		out.Write(text)
	}
	return out.Bytes(), nil
}

func prune(value any) {
	switch v := value.(type) {
	case map[string]any:
		delete(v, "status")
		for key, field := range v {
			prune(field)
			if empty, ok := field.(map[string]any); field == nil || ok && len(empty) == 0 {
				delete(v, key)
			}
		}
	case []any:
		for _, item := range v {
			prune(item)
		}
	}
}
