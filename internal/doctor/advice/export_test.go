package advice

import (
	"encoding/json"
	"maps"
	"slices"
)

// OverlayValues returns the chart's values of each overlay.
func OverlayValues() map[string][]string { return maps.Clone(values) }

// Sidecars returns the device plugin's DaemonSet for each overlay with a policy.
func Sidecars() map[string]string { return sidecars }

// GPULabels returns the labels that mark Nodes with GPUs.
func GPULabels() (all []string) {
	for _, labels := range gpuLabels {
		all = slices.AppendSeq(all, maps.Keys(labels))
	}
	return all
}

// GPUResources returns the pattern that matches the names of GPU resources.
func GPUResources() string { return gpuResources.String() }

// Conditions returns the sorted names of the policy conditions that the program evaluates.
func Conditions() []string { return slices.Sorted(maps.Keys(checks)) }

// Scheduled reports whether the DaemonSet controller would create a pod with this specification on a
// Node.
func Scheduled(spec, onNode []byte) (bool, error) {
	var s podSpec
	var n node
	if err := json.Unmarshal(spec, &s); err != nil {
		return false, err
	}
	if err := json.Unmarshal(onNode, &n); err != nil {
		return false, err
	}
	return s.refuses(&n).reason == "", nil
}
