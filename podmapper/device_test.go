package podmapper

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

const (
	plainUUID = "5a6b7c8d-0102-0304-0506-0708090a0b0c"
	gpuID     = "GPU-" + plainUUID
	migID     = "MIG-" + plainUUID
)

func index(n int) gpu.DeviceName { return gpu.DeviceName{Index: &n} }

func TestParseDeviceID(t *testing.T) {
	byUUID := func(uuid string) gpu.DeviceName { return gpu.DeviceName{UUID: uuid} }
	instance := gpu.DeviceName{UUID: gpuID, Partition: &gpu.PartitionName{Instance: "7"}}
	node := gpu.DeviceName{Node: "nvidia3"}
	onNode := gpu.DeviceName{Node: "nvidia3", Partition: &gpu.PartitionName{Instance: "7"}}
	second := gpu.DeviceName{Index: new(0), Partition: &gpu.PartitionName{Ordinal: new(1)}}
	tests := []struct {
		name, resource, id string
		want               gpu.DeviceName
		replica            string
	}{
		{"whole", "nvidia.com/gpu", gpuID, byUUID(gpuID), ""},
		{"replica", "nvidia.com/gpu.shared", gpuID + "::0", byUUID(gpuID), "0"},
		{"replica of many", "nvidia.com/gpu", gpuID + "::11", byUUID(gpuID), "11"},
		{"MIG", "nvidia.com/mig-1g.10gb", migID, byUUID(migID), ""},
		{"replica of MIG", "nvidia.com/mig-1g.10gb.shared", migID + "::2", byUUID(migID), "2"},
		{"old MIG", "nvidia.com/mig-1g.5gb", "MIG-" + gpuID + "/7/0", instance, ""},
		{"replica of old MIG", "nvidia.com/mig-1g.5gb", "MIG-" + gpuID + "/7/0::3", instance, "3"},
		{"index", "nvidia.com/gpu", "3", index(3), ""},
		{"replica of an index", "nvidia.com/gpu", "3::1", index(3), "1"},
		{"MIG by index", "nvidia.com/mig-1g.5gb", "0:1", second, ""},
		{"replica of MIG by index", "nvidia.com/mig-1g.5gb", "0:1::4", second, "4"},
		{"device node", "nvidia.com/gpu", "nvidia3", node, ""},
		{"replica of a device node", "nvidia.com/gpu", "nvidia3/vgpu12", node, "12"},
		{"MIG by device node", "nvidia.com/gpu", "nvidia3/gi7", onNode, ""},
		{"replica of MIG by device node", "nvidia.com/gpu", "nvidia3/gi7/vgpu0", onNode, "0"},
		{"device node, renamed", "example.com/gpu", "nvidia3/vgpu1", node, "1"},
		{"renamed", "example.com/gpu", gpuID, byUUID(gpuID), ""},
		{"replica, renamed", "example.com/gpu", gpuID + "::1", byUUID(gpuID), "1"},
		{"PCI address", "amd.com/gpu", "0000:0b:00.0", gpu.DeviceName{PCIBusID: "00000000:0B:00.0"}, ""},
		{"PCI address as the driver prints it", "amd.com/gpu", "00000001:0B:00.7", gpu.DeviceName{PCIBusID: "00000001:0B:00.7"}, ""},
		{"PCI address with a domain of five digits", "amd.com/gpu", "10000:0b:00.0", gpu.DeviceName{PCIBusID: "00010000:0B:00.0"}, ""},
		{"AMD's partition", "amd.com/cpx_nps4", "amdgpu_xcp_13", gpu.DeviceName{Partition: &gpu.PartitionName{Device: "amdgpu_xcp_13"}}, ""},
		{"AMD's first partition", "amd.com/cpx_nps4", "0000:1b:00.0", gpu.DeviceName{PCIBusID: "00000000:1B:00.0"}, ""},
		{"another vendor's PCI address", "example.com/gpu", "0000:0b:00.0", gpu.DeviceName{PCIBusID: "00000000:0B:00.0"}, ""},
		{"not a PCI address", "example.com/gpu", "0000:0b:00.8", byUUID("0000:0b:00.8"), ""},
		{"another vendor's device, resembling a replica", "example.com/gpu", "card::1", byUUID("card::1"), ""},
		{"another vendor's device, of maximum length", "example.com/gpu", strings.Repeat("x", 253), byUUID(strings.Repeat("x", 253)), ""},
		{"another vendor's number", "example.com/gpu", "0", byUUID("0"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := parseDeviceID(tt.resource, tt.id)
			if got.resource != tt.resource || got.replica != tt.replica || !strings.HasPrefix(tt.id, got.id) {
				t.Errorf("parseDeviceID(%q, %q) = %+v, want replica %q", tt.resource, tt.id, got, tt.replica)
			}
			if diff := cmp.Diff(tt.want, got.name); diff != "" {
				t.Errorf("parseDeviceID(%q, %q) (-want +got):\n%s", tt.resource, tt.id, diff)
			}
		})
	}
}

func TestUnknownDeviceID(t *testing.T) {
	tests := []struct{ name, resource, id string }{
		{"replica without number", "nvidia.com/gpu", gpuID + "::"},
		{"replica is not a number", "nvidia.com/gpu", gpuID + "::a"},
		{"replica of a replica", "nvidia.com/gpu", gpuID + "::1::2"},
		{"old MIG without instances", "nvidia.com/gpu", "MIG-" + gpuID},
		{"old MIG with one instance", "nvidia.com/gpu", "MIG-" + gpuID + "/1"},
		{"old MIG with three instances", "nvidia.com/gpu", "MIG-" + gpuID + "/1/0/0"},
		{"old MIG without a GPU", "nvidia.com/gpu", "MIG-" + plainUUID + "/1/0"},
		{"old MIG with a short UUID", "nvidia.com/gpu", "MIG-" + gpuID[:len(gpuID)-1] + "/1/0"},
		{"old MIG, GPU instance is not a number", "nvidia.com/gpu", "MIG-" + gpuID + "/x/0"},
		{"old MIG, compute instance is not a number", "nvidia.com/gpu", "MIG-" + gpuID + "/1/x"},
		{"old MIG, a GPU", "nvidia.com/gpu", "GPU-" + gpuID + "/1/0"},
		{"old MIG of a MIG device", "nvidia.com/gpu", "MIG-" + migID + "/1/0"},
		{"bare UUID", "nvidia.com/gpu", plainUUID},
		{"short UUID", "nvidia.com/gpu", gpuID[:len(gpuID)-1]},
		{"not hexadecimal", "nvidia.com/gpu", strings.Replace(gpuID, "5", "x", 1)},
		{"not a GPU", "nvidia.com/gpu", "NIC-" + plainUUID},
		{"index with a sign", "nvidia.com/gpu", "-1"},
		{"index with a zero", "nvidia.com/gpu", "01"},
		{"index too big", "nvidia.com/gpu", "12345"},
		{"index without a MIG device", "nvidia.com/gpu", "0:"},
		{"index and two MIG devices", "nvidia.com/gpu", "0:1:2"},
		{"device node without number", "nvidia.com/gpu", "nvidia"},
		{"device node, number with a zero", "nvidia.com/gpu", "nvidia01"},
		{"device node with another name", "nvidia.com/gpu", "nvidiactl"},
		{"device node with a trailing slash", "nvidia.com/gpu", "nvidia0/"},
		{"device node, instance without number", "nvidia.com/gpu", "nvidia0/gi"},
		{"device node, number after it", "nvidia.com/gpu", "nvidia0/7"},
		{"device node, compute instance", "nvidia.com/gpu", "nvidia0/gi1/ci0"},
		{"device node, replica without number", "nvidia.com/gpu", "nvidia0/vgpu"},
		{"device node, replica before the instance", "nvidia.com/gpu", "nvidia0/vgpu0/gi1"},
		{"path of a device node", "nvidia.com/gpu", "/dev/nvidia0"},
		{"PCI address as NVIDIA's id", "nvidia.com/gpu", "0000:0b:00.0"},
		{"replica in an unknown format", "nvidia.com/gpu", "part0::1"},
		{"empty", "nvidia.com/gpu", ""},
		{"AMD's device, empty", "amd.com/gpu", ""},
		{"AMD's IOMMU group", "amd.com/gpu", "37"},
		{"AMD's device, not a PCI address", "amd.com/gpu", "0000:0b:00.8"},
		{"AMD's device, PCI address with a short domain", "amd.com/gpu", "000:0b:00.0"},
		{"AMD's device, PCI address with a long domain", "amd.com/gpu", "000000000:0b:00.0"},
		{"AMD's device, replica", "amd.com/gpu", "0000:0b:00.0::1"},
		{"AMD's partition without number", "amd.com/gpu", "amdgpu_xcp_"},
		{"AMD's partition, number with a zero", "amd.com/gpu", "amdgpu_xcp_01"},
		{"AMD's partition, name after it", "amd.com/gpu", "amdgpu_xcp_1/drm"},
		{"another vendor's device, empty", "example.com/gpu", ""},
		{"another vendor's device, with a space", "example.com/gpu", "card 1"},
		{"another vendor's device, with a leading dash", "example.com/gpu", "-1"},
		{"another vendor's device, too long", "example.com/gpu", strings.Repeat("x", 254)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, want := parseDeviceID(tt.resource, tt.id), (device{resource: tt.resource, id: tt.id}); got != want {
				t.Errorf("parseDeviceID(%q, %q) = %+v, want %+v", tt.resource, tt.id, got, want)
			}
		})
	}
}

// spell returns the id with which a device plugin would register the device.
func spell(n gpu.DeviceName) string {
	id := n.UUID
	switch {
	case n.Index != nil:
		id = strconv.Itoa(*n.Index)
	case n.Node != "":
		id = n.Node
	}
	switch {
	case n.Partition == nil:
	case n.Partition.Device != "":
		id = n.Partition.Device
	case n.Partition.Ordinal != nil:
		id += ":" + strconv.Itoa(*n.Partition.Ordinal)
	case n.Node != "":
		id += "/gi" + n.Partition.Instance
	default:
		id = "MIG-" + id + "/" + n.Partition.Instance + "/"
	}
	return id
}

func FuzzDeviceID(f *testing.F) {
	for _, id := range []string{
		gpuID, gpuID + "::3", migID, "MIG-" + gpuID + "/1/0", "0:1::2", "7", "0000:0b:00.0",
		"nvidia0", "nvidia0/gi7", "nvidia2/vgpu3", "nvidia0/gi1/vgpu0", "10000:0b:00.0", "amdgpu_xcp_3",
	} {
		f.Add("nvidia.com/gpu", id)
		f.Add("amd.com/gpu", id)
		f.Add("example.com/gpu", id)
	}
	f.Fuzz(func(t *testing.T, resource, id string) {
		d := parseDeviceID(resource, id)
		if !d.understood() {
			if want := (device{resource: resource, id: id}); d != want {
				t.Errorf("parseDeviceID(%q, %q) = %+v, want %+v", resource, id, d, want)
			}
			return
		}
		ways := 0
		ofPartition := d.name.Partition != nil && d.name.Partition.Device != ""
		for _, named := range []bool{d.name.UUID != "", d.name.Index != nil, d.name.Node != "", d.name.PCIBusID != "", ofPartition} {
			if named {
				ways++
			}
		}
		if ways != 1 {
			t.Errorf("parseDeviceID(%q, %q) = %+v, want exactly one name", resource, id, d.name)
		}
		if d.replica == "" && d.id != id || d.replica != "" && d.id+"::"+d.replica != id && d.id+"/vgpu"+d.replica != id {
			t.Errorf("parseDeviceID(%q, %q) = %+v, want the same id", resource, id, d)
		}
		if pci := d.name.PCIBusID; pci != "" {
			if !strings.HasSuffix(pci, strings.ToUpper(id)) || len(pci) != len("00000000:0B:00.0") {
				t.Errorf("parseDeviceID(%q, %q) = %+v", resource, id, d.name)
			}
			return
		}
		old := strings.HasPrefix(d.id, "MIG-GPU-")
		if again := spell(d.name); d.id != again && !(old && strings.HasPrefix(d.id, again)) {
			t.Errorf("parseDeviceID(%q, %q) = %+v, which is formatted as %q", resource, id, d.name, again)
		}
	})
}

// FuzzListing checks that a listed device becomes an allocation only if its resource matches, and that each allocation
// through a claim names a device.
func FuzzListing(f *testing.F) {
	f.Add("nvidia.com/gpu", gpuID, gpuID+"::1", draNVIDIA, "gpu-0", "k8s.gpu.nvidia.com/device="+gpuID, "")
	f.Add("nvidia.com/mig-1g.10gb", migID, "0:1", draNVIDIA, "gpu-0-mig-1g10gb-19-3", "", "share")
	f.Add("nvidia.com/gpu", "nvidia0/gi1/vgpu0", "nvidia0", "", "", "", "")
	f.Add("amd.com/gpu", "0000:0b:00.0", "::", draAMD, "gpu-1-129", "=", "")
	f.Add("amd.com/cpx_nps4", "amdgpu_xcp_7", "0000:0b:00.0", draAMD, "gpu-9-137", "", "share")
	f.Fuzz(func(t *testing.T, resource, id, secondID, driver, name, cdi, share string) {
		claimed := &podresources.ClaimResource{
			DriverName: driver, DeviceName: name, ShareId: &share, CdiDevices: []*podresources.CDIDevice{{Name: cdi}},
		}
		container := &podresources.ContainerResources{
			Name: "trainer",
			Devices: []*podresources.ContainerDevices{
				{ResourceName: resource, DeviceIds: []string{id, secondID, id}},
			},
			DynamicResources: []*podresources.DynamicResource{
				{ClaimName: "claim", ClaimResources: []*podresources.ClaimResource{claimed}},
			},
		}
		pods := []*podresources.PodResources{{Namespace: "ml-team", Name: "train-0", Containers: []*podresources.ContainerResources{container}}}
		l := readListing(pods, defaultResources, slog.New(slog.DiscardHandler))
		list := l.allocations(nil, nil, nil)
		if len(list) > 3 {
			t.Errorf("%d allocations for three devices", len(list))
		}
		for _, a := range list {
			named := a.Device != gpu.DeviceName{}
			if !named && a.Claim != "" || a.Replicas < 1 || a.Live || a.Owner.Part != "trainer" {
				t.Errorf("allocation %+v", a)
			}
			if (a.Resource == "") == (a.Claim == "") || a.Resource != "" && !defaultResources.MatchString(a.Resource) {
				t.Errorf("allocation of resource %q and claim %q", a.Resource, a.Claim)
			}
		}
	})
}
