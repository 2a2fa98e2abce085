//go:build e2e

package deploy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestChartServiceMonitor checks that the ServiceMonitor has the same scrape settings as the
// PodMonitor, and selects the Service. It checks both modes of the exporter.
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
			t.Errorf("%s: selector is missing, or the PodMonitors differ", mode)
		}
	}
}
