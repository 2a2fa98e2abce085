package deploy

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/gpuledger/gpuledger/internal/sidecar"
)

// Kyverno returns a MutatingPolicy of Kyverno that has the same effect as [Policy]. It is an example for clusters that
// do not serve MutatingAdmissionPolicy and do not allow another webhook.
//
// Kyverno evaluates the same expressions. A MutatingPolicy has no parameters, so the first variable reads the
// ConfigMap. If the ConfigMap is missing, the variable causes an error, which Kyverno ignores. Kyverno must evaluate
// the conditions itself, because the variable is not defined in the API server.
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

func ofVariable(expression string) string {
	return strings.ReplaceAll(expression, "params.?", "variables.parameters.?")
}
