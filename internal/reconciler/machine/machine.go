// Package machine derives the name that a provider uses for a Node's machine. It has no side effects and imports only
// the standard library.
package machine

import (
	"regexp"
	"slices"
	"strings"
)

// For these schemes, the provider ID ends with the name that the provider uses for the machine. OCI's IDs may have no
// scheme.
var clouds = []string{"aws", "gce", "azure", "oci"}

// unique matches generated IDs: UUIDs, long numbers, and OCI's IDs.
var unique = regexp.MustCompile(`^([0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9]{6,}|ocid1\..+)$`)

// ID derives the provider's name for a Node's machine from Node.spec.providerID. If there is no such name, it returns
// the system UUID. On bare metal, spec.providerID is empty. In k3s, kind, KubeVirt and Tinkerbell, spec.providerID
// contains the name of either the Node or the virtual machine. A replacement machine gets the same name.
//
//	aws:///us-east-1a/i-0a1b2c3d4e5f60718                      i-0a1b2c3d4e5f60718
//	gce://project/us-central1-a/gke-gpu-pool-1-x7q2            gke-gpu-pool-1-x7q2
//	azure:///subscriptions/…/virtualMachines/gpu-1             gpu-1
//	azure:///…/virtualMachineScaleSets/gpu-vmss/virtualMachines/3  gpu-vmss_3
//	ocid1.instance.oc1.phx.anyhqljt, oci://ocid1.instance…     ocid1.instance.oc1.phx.anyhqljt
//	openstack:///7d9c2f10-3bb6-…, hcloud://31415926            7d9c2f10-3bb6-…, 31415926
//
// An instance's number in a scale set is not unique across pools. So ID joins the name of the set and the number, as
// Azure does.
func ID(providerID, systemUUID string) string {
	scheme, path, found := strings.Cut(strings.TrimSpace(providerID), "://")
	if !found {
		scheme, path = "", scheme
	}
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	last := len(parts) - 1
	if last < 0 || !slices.Contains(clouds, scheme) && !unique.MatchString(parts[last]) {
		return systemUUID
	}
	if last >= 3 && strings.EqualFold(parts[last-3], "virtualMachineScaleSets") && strings.EqualFold(parts[last-1], "virtualMachines") {
		return parts[last-2] + "_" + parts[last]
	}
	return parts[last]
}
