package machine_test

import (
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/reconciler/machine"
)

const uuid = "4c4c4544-0051-3810-8056-b4c04f4a3332"

func TestID(t *testing.T) {
	tests := []struct{ name, provider, want string }{
		{"AWS", "aws:///us-east-1a/i-0a1b2c3d4e5f60718", "i-0a1b2c3d4e5f60718"},
		{"GCP", "gce://my-project/us-central1-a/gke-gpu-pool-1-x7q2", "gke-gpu-pool-1-x7q2"},
		{"Azure", "azure:///subscriptions/5a1c/resourceGroups/mc_rg/providers/Microsoft.Compute/virtualMachines/gpu-1", "gpu-1"},
		{"Azure scale set", "azure:///subscriptions/5a1c/resourceGroups/mc_rg/providers/Microsoft.Compute/virtualMachineScaleSets/aks-gpu-30511-vmss/virtualMachines/3", "aks-gpu-30511-vmss_3"},
		{"Azure scale set in lower case", "azure:///subscriptions/5a1c/resourcegroups/mc_rg/providers/microsoft.compute/virtualmachinescalesets/aks-gpu-vmss/virtualmachines/0", "aks-gpu-vmss_0"},
		{"OCI", "ocid1.instance.oc1.phx.anyhqljtxyz", "ocid1.instance.oc1.phx.anyhqljtxyz"},
		{"OCI with a scheme", "oci://ocid1.instance.oc1.phx.anyhqljtxyz", "ocid1.instance.oc1.phx.anyhqljtxyz"},
		{"OpenStack", "openstack:///7d9c2f10-3bb6-4a6e-9f6e-1f2c3d4e5f60", "7d9c2f10-3bb6-4a6e-9f6e-1f2c3d4e5f60"},
		{"k3s", "k3s://gpu-node-17", uuid},
		{"RKE2", "rke2://gpu-node-17", uuid},
		{"kind", "kind://docker/gpu/gpu-worker", uuid},
		{"kind by Cluster API", "docker:////gpu-worker", uuid},
		{"KubeVirt", "kubevirt://gpu-worker-0", uuid},
		{"Tinkerbell", "tinkerbell://eksa-system/eksa-node01", uuid},
		{"Harvester", "harvester://9f1c2d3e-4a5b-4c6d-8e7f-0a1b2c3d4e5f", "9f1c2d3e-4a5b-4c6d-8e7f-0a1b2c3d4e5f"},
		{"Harvester by name", "harvester://gpu-pool-7f9c4d8b6f-x2k4j", uuid},
		{"a provider of next year", "nextcloud://zone/gpu-node-000017", uuid},
		{"Proxmox, whose numbers are used again", "proxmox://cluster-1/117", uuid},
		{"Hetzner", "hcloud://31415926", "31415926"},
		{"bare metal", "", uuid},
		{"a scheme and nothing else", "aws:///", uuid},
		{"spaces", "  ", uuid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := machine.ID(tt.provider, uuid); got != tt.want {
				t.Errorf("ID(%q) = %q, want %q", tt.provider, got, tt.want)
			}
		})
	}
}

// FuzzID checks that the name is never a path, and is empty only if the system UUID is empty.
func FuzzID(f *testing.F) {
	f.Add("azure:///x/virtualMachineScaleSets/v/virtualMachines/3", uuid)
	f.Add("://", "")
	f.Fuzz(func(t *testing.T, provider, system string) {
		id := machine.ID(provider, system)
		if id == "" && system != "" || strings.Contains(id, "/") && !strings.Contains(system, "/") {
			t.Errorf("ID(%q, %q) = %q", provider, system, id)
		}
	})
}
