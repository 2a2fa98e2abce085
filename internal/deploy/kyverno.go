package deploy

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/gpuledger/gpuledger/internal/sidecar"
)

// Kyverno returns [Policy] as a MutatingPolicy of Kyverno, as an example for clusters that neither serve
// MutatingAdmissionPolicy nor allow another webhook.
//
// Kyverno evaluates the same expressions. A MutatingPolicy has no parameters, so the first variable reads the
// ConfigMap. A missing ConfigMap is an error, which is ignored. Kyverno evaluates the conditions itself, because
// the variable is undefined in the API server.
func Kyverno(namespace string) map[string]any {
	spec := Policy().Spec
	constraints := spec.MatchConstraints
	constraints.NamespaceSelector.MatchExpressions[0].Values = []string{namespace}

	read := "resource.Get('v1', 'configmaps', '" + ParametersNamespace + "', '" + sidecar.ParametersName + "')"
	variables := []admissionv1.Variable{{Name: "parameters", Expression: read}}
	for _, v := range spec.Variables {
		variables = append(variables, admissionv1.Variable{Name: v.Name, Expression: ofVariable(v.Expression)})
	}
	conditions := slices.Clone(spec.MatchConditions)
	for i := range conditions {
		conditions[i].Expression = ofVariable(conditions[i].Expression)
	}
	expression := strings.Replace(spec.Mutations[0].JSONPatch.Expression, "MutatingAdmissionPolicy "+Name, "MutatingPolicy "+Name, 1)
	return map[string]any{
		"apiVersion": "policies.kyverno.io/v1",
		"kind":       "MutatingPolicy",
		"metadata":   map[string]any{"name": Name, "labels": partOf},
		"spec": map[string]any{
			"failurePolicy":        spec.FailurePolicy,
			"reinvocationPolicy":   spec.ReinvocationPolicy,
			"webhookConfiguration": map[string]any{"timeoutSeconds": 2},
			"matchConstraints":     constraints,
			"matchConditions":      conditions,
			"variables":            variables,
			"mutations":            []any{map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]any{"expression": expression}}},
		},
	}
}

// ofVariable changes an expression so that it reads the parameters from the variable.
func ofVariable(expression string) string {
	return strings.ReplaceAll(expression, "params.?", "variables.parameters.?")
}
