package podmapper

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

func minor(n int) gpu.DeviceName { return gpu.DeviceName{Node: fmt.Sprintf("nvidia%d", n)} }

func placed(n, profile, start int) gpu.DeviceName {
	return gpu.DeviceName{Node: fmt.Sprintf("nvidia%d", n), Partition: &gpu.PartitionName{ProfileID: &profile, Start: &start}}
}

func TestParseDRAName(t *testing.T) {
	tests := []struct {
		give string
		want gpu.DeviceName
		ok   bool
	}{
		{"gpu-0", minor(0), true},
		{"gpu-15", minor(15), true},
		{"gpu-0-mig-1g10gb-19-3", placed(0, 19, 3), true},
		{"gpu-2-mig-1g10gb-me-20-0", placed(2, 20, 0), true},
		{"gpu-2-mig-1c-2g20gb-14-4", placed(2, 14, 4), true},
		{"gpu-0-mig-9-4-4", placed(0, 9, 4), true}, // profile number, start and size

		{"gpu-vfio-0", gpu.DeviceName{}, false},
		{"gpu", gpu.DeviceName{}, false},
		{"gpu-", gpu.DeviceName{}, false},
		{"gpu-x", gpu.DeviceName{}, false},
		{"gpu-01", gpu.DeviceName{}, false},
		{"gpu-0-", gpu.DeviceName{}, false},
		{"gpu-0-1", gpu.DeviceName{}, false},
		{"gpu-0-mig", gpu.DeviceName{}, false},
		{"gpu-0-mig-1g10gb", gpu.DeviceName{}, false},
		{"gpu-0-mig-1g10gb-19", gpu.DeviceName{}, false},
		{"gpu-0-mig-1g10gb-x-3", gpu.DeviceName{}, false},
		{"gpu-0-gim-9-4-4", gpu.DeviceName{}, false},
		{"gpu-0-mig-1g10gb-19-x", gpu.DeviceName{}, false},
		{"gpu-0-mig-9-4", gpu.DeviceName{}, false},
		{"gpu-0-mig-9-4-x", gpu.DeviceName{}, false},
		{"gpu-0-mig-9-4-4-4", gpu.DeviceName{}, false},
		{"gpu-0-mig--19-3", gpu.DeviceName{}, false},
		{"channel-0", gpu.DeviceName{}, false},
		{"GPU-0", gpu.DeviceName{}, false},
		{"", gpu.DeviceName{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.give, func(t *testing.T) {
			got, ok := parseDRAName(tt.give)
			if ok != tt.ok {
				t.Errorf("parseDRAName(%q) ok = %v, want %v", tt.give, ok, tt.ok)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("parseDRAName(%q) (-want +got):\n%s", tt.give, diff)
			}
		})
	}
}

func TestParseClaimed(t *testing.T) {
	const claim = "k8s.gpu.nvidia.com/claim=dab5ab50-d59a-42a6-af16-cfd4628c0f7a-"
	tests := []struct {
		name, driver, device string
		cdi                  []string
		want                 gpu.DeviceName
		id                   string
		ok                   bool
	}{
		{"by name", draNVIDIA, "gpu-3", []string{claim + "gpu-3"}, minor(3), "gpu-3", true},
		{"second of two devices", draNVIDIA, "gpu-4", []string{claim + "gpu-3", claim + "gpu-4"}, minor(4), "gpu-4", true},
		{"without CDI devices", draNVIDIA, "gpu-3", nil, minor(3), "gpu-3", true},
		{"by UUID", draNVIDIA, "gpu-3", []string{"k8s.gpu.nvidia.com/device=" + gpuID}, gpu.DeviceName{UUID: gpuID}, gpuID, true},
		{"MIG by UUID", draNVIDIA, "gpu-3", []string{"nvidia.com/gpu=" + gpuID, "nvidia.com/gpu=" + migID}, gpu.DeviceName{UUID: migID}, migID, true},
		{"by UUID, with a CDI device of the claim", draNVIDIA, "gpu-3", []string{"nvidia.com/gpu=" + gpuID, claim + "gpu-3"}, gpu.DeviceName{UUID: gpuID}, gpuID, true},
		{"another driver, by UUID", "gpu.example.com", "card-1", []string{"example.com/gpu=" + gpuID}, gpu.DeviceName{UUID: gpuID}, gpuID, true},

		{"AMD's", draAMD, "gpu-1-129", nil, gpu.DeviceName{Node: "dri/renderD129"}, "gpu-1-129", true},
		{"AMD's device with a CDI device", draAMD, "gpu-9-137", []string{"k8s.gpu.amd.com/claim=dab5ab50-gpu-9-137"}, gpu.DeviceName{Node: "dri/renderD137"}, "gpu-9-137", true},

		{"AMD's device without a render node", draAMD, "gpu-1", nil, gpu.DeviceName{}, "", false},
		{"AMD's device, a word as card", draAMD, "gpu-vfio-129", nil, gpu.DeviceName{}, "", false},
		{"AMD's device, a word as minor number", draAMD, "gpu-1-x", nil, gpu.DeviceName{}, "", false},
		{"AMD's device, a third number", draAMD, "gpu-1-129-0", nil, gpu.DeviceName{}, "", false},
		{"AMD's device, another kind", draAMD, "card-1-129", nil, gpu.DeviceName{}, "", false},
		{"another driver", "gpu.example.com", "gpu-3", nil, gpu.DeviceName{}, "", false},
		{"compute domain", "compute-domain.nvidia.com", "channel-0", nil, gpu.DeviceName{}, "", false},
		{"passed through", draNVIDIA, "gpu-vfio-0", []string{claim + "gpu-vfio-0"}, gpu.DeviceName{}, "", false},
		{"nothing", draNVIDIA, "", []string{"", "="}, gpu.DeviceName{}, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &podresources.ClaimResource{DriverName: tt.driver, DeviceName: tt.device}
			for _, name := range tt.cdi {
				r.CdiDevices = append(r.CdiDevices, &podresources.CDIDevice{Name: name})
			}
			got, id, ok := parseClaimed(r, nil)
			if ok != tt.ok || ok && id != tt.id {
				t.Errorf("parseClaimed = %q, %v, want %q, %v", id, ok, tt.id, tt.ok)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("parseClaimed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOwnCDI checks which CDI devices belong to a claimed device. The kubelet also lists the CDI devices of all earlier
// devices.
func TestOwnCDI(t *testing.T) {
	const a, b = "nvidia.com/gpu=" + gpuID, "nvidia.com/gpu=" + migID
	tests := []struct {
		name        string
		before, all []string
		want        gpu.DeviceName
	}{
		{"first", nil, []string{a}, gpu.DeviceName{UUID: gpuID}},
		{"second", []string{a}, []string{a, b}, gpu.DeviceName{UUID: migID}},
		{"after a device without a CDI device", nil, []string{b}, gpu.DeviceName{UUID: migID}},
		{"no own CDI device", []string{a}, []string{a}, minor(1)},
		{"own only", []string{a}, []string{b}, gpu.DeviceName{UUID: migID}},
		{"fewer", []string{a, b}, []string{b}, gpu.DeviceName{UUID: migID}},
		{"none", []string{a}, nil, minor(1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resource := func(names []string) *podresources.ClaimResource {
				r := &podresources.ClaimResource{DriverName: draNVIDIA, DeviceName: "gpu-1"}
				for _, name := range names {
					r.CdiDevices = append(r.CdiDevices, &podresources.CDIDevice{Name: name})
				}
				return r
			}
			got, _, ok := parseClaimed(resource(tt.all), resource(tt.before))
			if !ok {
				t.Error("parseClaimed: no device")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("parseClaimed (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzDRAName(f *testing.F) {
	for _, s := range []string{"gpu-0", "gpu-0-mig-1g10gb-19-3", "gpu-2-mig-1g10gb-me-20-0", "gpu-0-mig-9-4-4", "gpu-vfio-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, ok := parseDRAName(s)
		if !ok {
			if diff := cmp.Diff(gpu.DeviceName{}, name); diff != "" {
				t.Errorf("parseDRAName(%q) without ok (-want +got):\n%s", s, diff)
			}
			return
		}
		if name.Node == "" || name.UUID != "" || name.Index != nil {
			t.Fatalf("parseDRAName(%q) = %+v, want a minor number", s, name)
		}
		prefix := "gpu-" + strings.TrimPrefix(name.Node, "nvidia")
		if name.Partition == nil {
			if s != prefix {
				t.Errorf("parseDRAName(%q) names the GPU %s", s, prefix)
			}
			return
		}
		numbers := fmt.Sprintf("-%d-%d", *name.Partition.ProfileID, *name.Partition.Start)
		if !strings.HasPrefix(s, prefix+"-mig-") || !strings.Contains(s, numbers) || name.Partition.Ordinal != nil || name.Partition.Instance != "" {
			t.Errorf("parseDRAName(%q) = %s%s", s, prefix, numbers)
		}
	})
}
