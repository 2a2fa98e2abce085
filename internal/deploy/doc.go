// Package deploy defines how the exporter runs on a node: its container and the requirements of
// its pod.
//
// The definition is used for the admission policy that adds the container to the device plugin's
// pods, for the kustomize patches that add it to the device plugin's DaemonSet, and for the
// exporter's own DaemonSet. They are written to manifests/ and committed, so that installing
// them requires no Go. Because they are generated from Go types, they cannot contain a field
// that Kubernetes does not have.
//
// The package also generates Kubernetes objects from the rules and dashboards in dashboards/, and
// the schema of the Helm chart's values. The chart adds no objects: tools/chart copies the rendered
// overlays into it.
package deploy

//go:generate go run ./gen ../../manifests ../../dashboards/rules ../../charts/gpuledger
