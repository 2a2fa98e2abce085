// Package deploy holds the one definition of how the exporter runs on a node: its
// container, and what its pod needs.
//
// From it come the admission policy that adds the container to the device plugin's
// pods, the kustomize patches that add it to the device plugin's DaemonSet, and the
// DaemonSet of its own. They are written into manifests/ and committed, so whoever
// installs them needs no Go; and since all are made from Go types, none of them can
// name a field that Kubernetes does not have.
//
// It also makes Kubernetes objects of the rules and dashboards in dashboards/.
package deploy

//go:generate go run ./gen ../../manifests ../../dashboards/rules
