package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// A Value describes a line of the chart's values.yaml. The line contains a setting with its default value, or begins a
// section of settings.
type Value struct {
	Path    []string // keys from the root
	Comment string   // comment above the line
	Choices []string // allowed values, if the comment lists them
	Default any      // default value; nil for a section
	Text    string   // text of the default value
}

// Name returns the path in the form of helm's option --set.
func (v *Value) Name() string { return strings.Join(v.Path, ".") }

var (
	valueLine = regexp.MustCompile(`^((?:  )*)([A-Za-z][A-Za-z0-9]*):(?: (.+))?$`)
	choices   = regexp.MustCompile(` ?One of: (.+)\.$`)
)

// Values parses the chart's values.yaml. Every default must be on the same line as its key, and every setting must have
// a comment on the line above.
func Values(text []byte) ([]Value, error) {
	var values []Value
	var path, comment []string
	for number, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if sentence, ok := strings.CutPrefix(strings.TrimSpace(line), "# "); ok {
			comment = append(comment, sentence)
			continue
		}
		if line == "" {
			continue
		}
		match := valueLine.FindStringSubmatch(line)
		if match == nil || len(match[1])/2 > len(path) {
			return nil, fmt.Errorf("line %d: must be a key with its value: %s", number+1, line)
		}
		path = append(path[:len(match[1])/2:len(match[1])/2], match[2])
		value, err := newValue(path, comment, match[3])
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", number+1, line, err)
		}
		values, comment = append(values, value), nil
	}
	return values, nil
}

func newValue(path, comment []string, text string) (Value, error) {
	v := Value{Path: path, Comment: strings.Join(comment, " "), Text: text}
	if text == "" {
		return v, nil
	}
	if v.Comment == "" {
		return v, errors.New("setting has no comment")
	}
	if match := choices.FindStringSubmatch(v.Comment); match != nil {
		v.Comment = strings.TrimSuffix(v.Comment, match[0])
		for choice := range strings.SplitSeq(match[1], ", ") {
			v.Choices = append(v.Choices, strings.Trim(choice, `"`))
		}
	}
	if err := yaml.Unmarshal([]byte(text), &v.Default); err != nil {
		return v, err
	}
	if v.Default == nil {
		return v, errors.New("default must not be null")
	}
	return v, nil
}

type schema struct {
	Version     string             `json:"$schema,omitempty"`
	Comment     string             `json:"description,omitempty"`
	Ref         string             `json:"$ref,omitempty"`
	Type        any                `json:"type,omitempty"` // a string or a list of strings
	Choices     []string           `json:"enum,omitempty"`
	Pattern     string             `json:"pattern,omitempty"`
	Minimum     *int               `json:"minimum,omitempty"`
	Maximum     *int               `json:"maximum,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Additional  any                `json:"additionalProperties,omitempty"` // false, or the schema of the values of a map
	Definitions types              `json:"definitions,omitempty"`
}

// rejected lists settings of other charts. A template of this chart rejects these settings with an error message.
var rejected = []string{"nameOverride", "fullnameOverride"}

// Schema returns the JSON schema of the chart's values. It rejects unknown keys, except in maps such as labels. It also
// accepts unknown keys in global, because Helm passes global to all charts of a release.
func Schema(values []Value) ([]byte, error) {
	root := section("")
	root.Version = "http://json-schema.org/draft-07/schema#"
	root.Definitions = make(types)
	for _, key := range rejected {
		root.Properties[key] = &schema{Type: "string"}
	}
	for _, v := range values {
		parent := root
		for _, key := range v.Path[:len(v.Path)-1] {
			parent = parent.Properties[key]
		}
		property := section(v.Comment)
		if v.Default != nil {
			var err error
			if property, err = root.Definitions.property(&v); err != nil {
				return nil, fmt.Errorf("%s: %w", v.Name(), err)
			}
		} else if v.Name() == "global" {
			property.Additional = nil
		}
		parent.Properties[v.Path[len(v.Path)-1]] = property
	}
	text, err := json.MarshalIndent(root, "", "  ")
	return append(text, '\n'), err
}

func section(comment string) *schema {
	return &schema{Comment: comment, Type: "object", Properties: make(map[string]*schema), Additional: false}
}

func jsonType(value any) (string, error) {
	switch value.(type) {
	case string:
		return "string", nil
	case bool:
		return "boolean", nil
	case float64:
		return "integer", nil
	}
	return "", fmt.Errorf("settingTypes has no type for the default %v", value)
}

// ValuesTable returns the Markdown table of the chart's values.
func ValuesTable(values []Value) string {
	var out strings.Builder
	out.WriteString("| value | default | |\n|---|---|---|\n")
	for _, v := range values {
		if v.Default == nil {
			continue
		}
		comment := v.Comment
		if v.Choices != nil {
			quoted := make([]string, len(v.Choices))
			for i, choice := range v.Choices {
				quoted[i] = "`" + choice + "`"
				if choice == "" {
					quoted[i] = "empty"
				}
			}
			comment += " One of: " + strings.Join(quoted, ", ") + "."
		}
		fmt.Fprintf(&out, "| `%s` | `%s` | %s |\n", v.Name(), v.Text, comment)
	}
	return out.String()
}
