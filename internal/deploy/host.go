package deploy

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/gpuledger/gpuledger/internal/sidecar"
)

// HostPatches returns kustomize patches for the policy. Each patch makes the policy add the exporter to the pods of
// another program instead of the device plugin's pods. The map's keys are the names that the chart's values use for
// these programs.
//
// In DCGM Exporter's chart, the name of the container is "exporter". Other charts use this name too, so the policy also
// checks the image.
func HostPatches() map[string][]sidecar.Operation {
	return map[string][]sidecar.Operation{
		"dcgm-exporter": hostPatch("is-dcgm-exporter",
			"object.spec.containers.exists(c, c.name in ['nvidia-dcgm-exporter', 'dcgm-exporter'] || c.name == 'exporter' && c.?image.orValue('').contains('dcgm-exporter'))"),
		"mps-control-daemon": hostPatch("is-an-mps-control-daemon", "object.spec.containers.exists(c, c.name == 'mps-control-daemon-ctr')"),
	}
}

func hostPatch(name, expression string) []sidecar.Operation {
	const condition = "/spec/matchConditions/2"
	return []sidecar.Operation{
		{Op: "test", Path: condition + "/name", Value: pluginCondition},
		{Op: "replace", Path: condition, Value: admissionv1.MatchCondition{Name: name, Expression: expression}},
	}
}
