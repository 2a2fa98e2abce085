// Package deploy defines how the exporter runs on a node: its container and the requirements of
// its pod.
//
// From this definition, the package generates an admission policy, kustomize patches and the exporter's own
// DaemonSet. The policy adds the container to the device plugin's pods, and the patches add it to the device
// plugin's DaemonSet. These manifests are written to manifests/ and committed, so that their installation
// requires no Go. Because they are generated from Go types, they cannot contain a field that Kubernetes does
// not have.
//
// The package also generates Kubernetes objects from the rules and dashboards in dashboards/, and the schema
// of the Helm chart's values. The chart defines no objects of its own, because tools/chart copies the
// rendered overlays into it.
package deploy

//go:generate go run ./gen ../../manifests ../../dashboards/rules ../../charts/gpuledger
