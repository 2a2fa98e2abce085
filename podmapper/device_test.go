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
	instance := gpu.DeviceName{UUID: gpuID, MIG: &gpu.MIGName{Instance: "7"}}
	second := gpu.DeviceName{Index: new(0), MIG: &gpu.MIGName{Ordinal: new(1)}}
	tests := []struct {
		name, resource, id string
		want               gpu.DeviceName
		replica            string
		ok                 bool
	}{
		{"whole", "nvidia.com/gpu", gpuID, byUUID(gpuID), "", true},
		{"replica", "nvidia.com/gpu.shared", gpuID + "::0", byUUID(gpuID), "0", true},
		{"replica of many", "nvidia.com/gpu", gpuID + "::11", byUUID(gpuID), "11", true},
		{"MIG", "nvidia.com/mig-1g.10gb", migID, byUUID(migID), "", true},
		{"replica of MIG", "nvidia.com/mig-1g.10gb.shared", migID + "::2", byUUID(migID), "2", true},
		{"old MIG", "nvidia.com/mig-1g.5gb", "MIG-" + gpuID + "/7/0", instance, "", true},
		{"replica of old MIG", "nvidia.com/mig-1g.5gb", "MIG-" + gpuID + "/7/0::3", instance, "3", true},
		{"index", "nvidia.com/gpu", "3", index(3), "", true},
		{"replica of an index", "nvidia.com/gpu", "3::1", index(3), "1", true},
		{"MIG by index", "nvidia.com/mig-1g.5gb", "0:1", second, "", true},
		{"replica of MIG by index", "nvidia.com/mig-1g.5gb", "0:1::4", second, "4", true},
		{"renamed", "example.com/gpu", gpuID, byUUID(gpuID), "", true},
		{"replica, renamed", "example.com/gpu", gpuID + "::1", byUUID(gpuID), "1", true},
		{"PCI address", "amd.com/gpu", "0000:0b:00.0", byUUID("0000:0b:00.0"), "", true},
		{"partition", "amd.com/gpu", "amdgpu_xcp_1", byUUID("amdgpu_xcp_1"), "", true},
		{"another vendor's number", "amd.com/gpu", "0", byUUID("0"), "", true},

		{"replica without number", "nvidia.com/gpu", gpuID + "::", gpu.DeviceName{}, "", false},
		{"replica not a number", "nvidia.com/gpu", gpuID + "::a", gpu.DeviceName{}, "", false},
		{"replica of a replica", "nvidia.com/gpu", gpuID + "::1::2", gpu.DeviceName{}, "", false},
		{"old MIG without instances", "nvidia.com/gpu", "MIG-" + gpuID, gpu.DeviceName{}, "", false},
		{"old MIG with one instance", "nvidia.com/gpu", "MIG-" + gpuID + "/1", gpu.DeviceName{}, "", false},
		{"old MIG with three instances", "nvidia.com/gpu", "MIG-" + gpuID + "/1/0/0", gpu.DeviceName{}, "", false},
		{"old MIG of a MIG", "nvidia.com/gpu", "MIG-" + migID + "/1/0", gpu.DeviceName{}, "", false},
		{"bare UUID", "nvidia.com/gpu", plainUUID, gpu.DeviceName{}, "", false},
		{"short UUID", "nvidia.com/gpu", gpuID[:len(gpuID)-1], gpu.DeviceName{}, "", false},
		{"not hexadecimal", "nvidia.com/gpu", strings.Replace(gpuID, "5", "x", 1), gpu.DeviceName{}, "", false},
		{"no GPU", "nvidia.com/gpu", "NIC-" + plainUUID, gpu.DeviceName{}, "", false},
		{"index with a sign", "nvidia.com/gpu", "-1", gpu.DeviceName{}, "", false},
		{"index with a zero", "nvidia.com/gpu", "01", gpu.DeviceName{}, "", false},
		{"index too big", "nvidia.com/gpu", "12345", gpu.DeviceName{}, "", false},
		{"index without a MIG device", "nvidia.com/gpu", "0:", gpu.DeviceName{}, "", false},
		{"index and two MIG devices", "nvidia.com/gpu", "0:1:2", gpu.DeviceName{}, "", false},
		{"PCI address as NVIDIA's", "nvidia.com/gpu", "0000:0b:00.0", gpu.DeviceName{}, "", false},
		{"empty", "nvidia.com/gpu", "", gpu.DeviceName{}, "", false},
		{"another vendor's, empty", "amd.com/gpu", "", gpu.DeviceName{}, "", false},
		{"another vendor's, with a space", "amd.com/gpu", "card 1", gpu.DeviceName{}, "", false},
		{"another vendor's, without end", "amd.com/gpu", strings.Repeat("x", 254), gpu.DeviceName{}, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, replica, ok := parseDeviceID(tt.resource, tt.id)
			if replica != tt.replica || ok != tt.ok {
				t.Errorf("parseDeviceID(%q, %q) = replica %q, %v, want %q, %v", tt.resource, tt.id, replica, ok, tt.replica, tt.ok)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("parseDeviceID(%q, %q) (-want +got):\n%s", tt.resource, tt.id, diff)
			}
		})
	}
}

// spell writes a name as a device plugin would.
func spell(n gpu.DeviceName) string {
	id := n.UUID
	if n.Index != nil {
		id = strconv.Itoa(*n.Index)
	}
	switch {
	case n.MIG == nil:
	case n.MIG.Ordinal != nil:
		id += ":" + strconv.Itoa(*n.MIG.Ordinal)
	default:
		id = "MIG-" + id + "/" + n.MIG.Instance + "/"
	}
	return id
}

func FuzzDeviceID(f *testing.F) {
	for _, id := range []string{gpuID, gpuID + "::3", migID, "MIG-" + gpuID + "/1/0", "0:1::2", "7", "0000:0b:00.0"} {
		f.Add("nvidia.com/gpu", id)
		f.Add("amd.com/gpu", id)
	}
	f.Fuzz(func(t *testing.T, resource, id string) {
		name, replica, ok := parseDeviceID(resource, id)
		if !ok {
			if diff := cmp.Diff(gpu.DeviceName{}, name); diff != "" || replica != "" {
				t.Errorf("parseDeviceID(%q, %q) = %+v, %q without ok", resource, id, name, replica)
			}
			return
		}
		if (name.UUID == "") == (name.Index == nil) || name.Minor != nil {
			t.Errorf("parseDeviceID(%q, %q) = %+v, which names nothing, or twice", resource, id, name)
		}
		again := spell(name)
		if replica != "" {
			id = strings.TrimSuffix(id, "::"+replica)
		}
		if !strings.HasPrefix(id, again) || name.MIG == nil && id != again {
			t.Errorf("parseDeviceID of %q = %+v, which is %q", id, name, again)
		}
	})
}

// FuzzListing checks that what the kubelet lists becomes allocations that name a
// device, of resources that were asked for.
func FuzzListing(f *testing.F) {
	f.Add("nvidia.com/gpu", gpuID, gpuID+"::1", draDriver, "gpu-0", "k8s.gpu.nvidia.com/device="+gpuID, "")
	f.Add("nvidia.com/mig-1g.10gb", migID, "0:1", draDriver, "gpu-0-mig-1g10gb-19-3", "", "share")
	f.Add("amd.com/gpu", "0000:0b:00.0", "::", "", "", "=", "")
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
			t.Errorf("%d allocations of three devices", len(list))
		}
		for _, a := range list {
			named := a.Device.UUID != "" || a.Device.Index != nil || a.Device.Minor != nil
			if !named || a.Replicas < 1 || a.Live || a.Container.Container != "trainer" {
				t.Errorf("allocation %+v", a)
			}
			if (a.Resource == "") == (a.Claim == "") || a.Resource != "" && !defaultResources.MatchString(a.Resource) {
				t.Errorf("allocation of resource %q and claim %q", a.Resource, a.Claim)
			}
		}
	})
}
