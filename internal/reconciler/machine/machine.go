// Package machine derives a Node's machine name as its provider uses it. It is pure and imports
// only the standard library.
package machine

import "strings"

// ID returns the name that the provider uses for the machine of a Node, from
// Node.spec.providerID, and the system UUID where it is missing: on bare metal
// the field is empty, or has the Node's own name (k3s, RKE2, kind), which a machine that
// takes its place gets as well.
//
//	aws:///us-east-1a/i-0a1b2c3d4e5f60718                      i-0a1b2c3d4e5f60718
//	gce://project/us-central1-a/gke-gpu-pool-1-x7q2            gke-gpu-pool-1-x7q2
//	azure:///subscriptions/…/virtualMachines/gpu-1             gpu-1
//	azure:///…/virtualMachineScaleSets/gpu-vmss/virtualMachines/3  gpu-vmss_3
//	ocid1.instance.oc1.phx.anyhqljt, oci://ocid1.instance…     ocid1.instance.oc1.phx.anyhqljt
//
// The number of an instance in a scale set alone would be the same in every pool, so
// it is joined to the set's name as Azure itself does. Other providers' machines are
// named by the last part of the path. The names of some providers are used again for
// another machine; the system UUID is not.
func ID(providerID, systemUUID string) string {
	scheme, path, hasScheme := strings.Cut(strings.TrimSpace(providerID), "://")
	switch {
	case !hasScheme:
		path = strings.TrimSpace(providerID)
	case scheme == "k3s" || scheme == "rke2" || scheme == "kind":
		return systemUUID
	}
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	if len(parts) == 0 {
		return systemUUID
	}
	last := len(parts) - 1
	if last >= 3 && strings.EqualFold(parts[last-3], "virtualMachineScaleSets") && strings.EqualFold(parts[last-1], "virtualMachines") {
		return parts[last-2] + "_" + parts[last]
	}
	return parts[last]
}
