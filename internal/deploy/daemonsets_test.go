//go:build e2e

package deploy_test

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	syaml "sigs.k8s.io/yaml"
)

// TestOneDaemonSet checks that, in each overlay, the reconciler and Prometheus read the exporters of exactly one
// DaemonSet. If the overlay contains the exporter's own DaemonSet, the reconciler and Prometheus must read its
// exporters. If the overlay contains the policy, they must read the exporters of a DaemonSet in the policy's namespace.
// A DaemonSet in another namespace would not be safe, because a user of the cluster could create that namespace.
func TestOneDaemonSet(t *testing.T) {
	overlays := 0
	for file, documents := range files(t) {
		var read, scraped, policy []string
		own := false
		for _, document := range documents {
			w := &workload{}
			check(t, yaml.Unmarshal(document, w))
			switch w.Kind + " " + w.Name {
			case "MutatingAdmissionPolicy gpuledger":
				p := &admissionv1.MutatingAdmissionPolicy{}
				check(t, syaml.UnmarshalStrict(document, p))
				policy = p.Spec.MatchConstraints.NamespaceSelector.MatchExpressions[0].Values
			case "Deployment gpuledger-reconciler":
				read = exporters(t, arguments(&w.Spec.Template.Spec.Containers[0]))
			case "DaemonSet gpuledger":
				own = true
			case "PodMonitor gpuledger":
				scraped = monitored(t, document)
			}
		}
		if read == nil {
			continue // this file removes the objects of an overlay
		}
		overlays++
		t.Run(file, func(t *testing.T) {
			namespace, _, ok := strings.Cut(read[0], "/")
			if len(read) != 1 || !ok {
				t.Fatalf("the reconciler reads %q, want one DaemonSet with its namespace", read)
			}
			if own != (read[0] == "gpuledger/gpuledger") || own == (policy != nil) {
				t.Errorf("the reconciler reads %s; own DaemonSet: %v, policy: %v", read[0], own, policy)
			}
			if policy != nil && !slices.Equal(policy, []string{namespace}) {
				t.Errorf("the reconciler reads %s, the policy is for %v", read[0], policy)
			}
			if scraped != nil && !slices.Equal(scraped, read) {
				t.Errorf("the reconciler reads %s, Prometheus scrapes %v", read[0], scraped)
			}
		})
	}
	if want := 11; overlays < want {
		t.Errorf("%d overlays, want at least %d", overlays, want)
	}
}

func exporters(t *testing.T, args []string) []string {
	t.Helper()
	for _, arg := range slices.Backward(args) {
		if list, ok := strings.CutPrefix(arg, "--exporter.daemonsets="); ok {
			return strings.Split(list, ",")
		}
	}
	t.Fatalf("no --exporter.daemonsets in %q", args)
	return nil
}

func monitored(t *testing.T, document []byte) []string {
	t.Helper()
	var monitor map[string]any
	check(t, syaml.Unmarshal(document, &monitor))
	monitor, _ = snake(monitor).(map[string]any)
	return scrapedDaemonSets(t, list(at(monitor, "spec", "namespace_selector", "match_names")),
		list(at(monitor, "spec", "pod_metrics_endpoints")), "relabelings")
}
