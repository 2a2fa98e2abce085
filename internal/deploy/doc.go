// Package deploy defines how the exporter runs on a node: its container and the requirements of its pod.
//
// From this definition, the package generates an admission policy, kustomize patches and the exporter's own DaemonSet.
// The policy adds the container to the device plugin's pods. The patches add the container to the device
// plugin's DaemonSet. All these manifests are written to manifests/ and committed, so that users can install them
// without Go. They are generated from Go types, so they cannot contain a field that does not exist in Kubernetes.
//
// The package also generates Kubernetes objects from the rules and dashboards in dashboards/, and the schema of the
// Helm chart's values. The chart defines no objects of its own, because tools/chart copies the rendered overlays into
// it.
package deploy

//go:generate go run -trimpath ./gen ../../manifests ../../dashboards/rules ../../charts/gpuledger
