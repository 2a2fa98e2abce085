package deploy

// DevicePluginName matches the name of the device plugin's DaemonSet, in the static manifest and in the chart. The
// other DaemonSets in the chart have another suffix.
const DevicePluginName = "(.+-)?nvidia-device-plugin(-daemonset)?"

// HelmRelease returns an example for Flux. The example installs the device plugin's chart and adds the
// exporter's container to the DaemonSet of the plugin. Flux applies the patch to the output of the chart.
func HelmRelease() (map[string]any, error) {
	pod, err := YAML(PodPatch())
	if err != nil {
		return nil, err
	}
	container, err := YAML(ContainerPatch())
	if err != nil {
		return nil, err
	}
	target := map[string]any{"kind": "DaemonSet", "name": DevicePluginName}
	return map[string]any{
		"apiVersion": "helm.toolkit.fluxcd.io/v2",
		"kind":       "HelmRelease",
		"metadata":   map[string]any{"name": "nvidia-device-plugin", "namespace": "nvidia-device-plugin"},
		"spec": map[string]any{
			"interval": "1h",
			"chart": map[string]any{"spec": map[string]any{
				"chart":     "nvidia-device-plugin",
				"version":   "0.20.0",
				"sourceRef": map[string]any{"kind": "HelmRepository", "name": "nvidia-device-plugin"},
			}},
			"postRenderers": []any{map[string]any{"kustomize": map[string]any{"patches": []any{
				map[string]any{"target": target, "patch": string(pod)},
				map[string]any{"target": target, "patch": string(container)},
			}}}},
		},
	}, nil
}
