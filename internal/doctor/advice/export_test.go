package advice

import (
	"encoding/json"
	"maps"
	"slices"
)

func OverlayValues() map[string][]string { return maps.Clone(values) }

func Sidecars() map[string]string { return sidecars }

func GPULabels() (all []string) {
	for _, labels := range gpuLabels {
		all = slices.AppendSeq(all, maps.Keys(labels))
	}
	return all
}

func GPUResources() string { return gpuResources.String() }

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
