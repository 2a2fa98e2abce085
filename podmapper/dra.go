package podmapper

import (
	"slices"
	"strings"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// These are the DRA drivers for GPUs.
const (
	draNVIDIA = "gpu.nvidia.com"
	draAMD    = "gpu.amd.com"
)

// parseClaimed parses one device of a resource claim. It prefers a UUID in the name of a CDI device to the name of the
// claimed device. The number in the device's name is ambiguous. In early releases of the DRA driver, this number is the
// driver's index, and in later releases it is the minor number. The argument before is the previous device of the same
// driver in the claim, or nil.
func parseClaimed(r, before *podresources.ClaimResource) (name gpu.DeviceName, id string, ok bool) {
	for _, device := range slices.Backward(ownCDI(r.GetCdiDevices(), before.GetCdiDevices())) {
		_, id, _ := strings.Cut(device.GetName(), "=")
		if name, ok := parseUUID(id); ok {
			return name, id, true
		}
	}
	switch r.GetDriverName() {
	case draNVIDIA:
		name, ok = parseDRAName(r.GetDeviceName())
	case draAMD:
		name, ok = parseAMDName(r.GetDeviceName())
	}
	return name, r.GetDeviceName(), ok
}

// ownCDI returns the CDI devices that belong to one claimed device. For each claimed device, the kubelet lists the CDI
// devices of all earlier devices of the same driver, and then the CDI devices of the device itself.
func ownCDI(all, before []*podresources.CDIDevice) []*podresources.CDIDevice {
	same := func(a, b *podresources.CDIDevice) bool { return a.GetName() == b.GetName() }
	if len(all) < len(before) || !slices.EqualFunc(all[:len(before)], before, same) {
		return all
	}
	return all[len(before):]
}

// parseDRAName parses the name with which NVIDIA's DRA driver publishes a device:
//
//	gpu-<minor>
//	gpu-<minor>-mig-<profile>-<profile id>-<start>
//	gpu-<minor>-mig-<profile id>-<start>-<size>     before release 26
//
// A profile such as 1g10gb or 1g10gb-me is never a number. GPUs that are passed through to a
// virtual machine, gpu-vfio-<n>, are ignored because the NVIDIA driver does not manage them.
func parseDRAName(s string) (gpu.DeviceName, bool) {
	part := strings.Split(s, "-")
	if len(part) < 2 || part[0] != "gpu" {
		return gpu.DeviceName{}, false
	}
	minor, ok := parseNumber(part[1])
	if !ok {
		return gpu.DeviceName{}, false
	}
	if len(part) == 2 {
		return gpu.DeviceName{Node: node(minor)}, true
	}
	if part[2] != "mig" {
		return gpu.DeviceName{}, false
	}
	mig, ok := parsePlacement(part[3:])
	if !ok {
		return gpu.DeviceName{}, false
	}
	return gpu.DeviceName{Node: node(minor), Partition: mig}, true
}

// parseAMDName parses the name with which AMD's DRA driver publishes a device: gpu-<card>-<minor number of the render
// node>. A partition has its own render node.
func parseAMDName(s string) (gpu.DeviceName, bool) {
	part := strings.Split(s, "-")
	if len(part) != 3 || part[0] != "gpu" {
		return gpu.DeviceName{}, false
	}
	_, ok1 := parseNumber(part[1])
	_, ok2 := parseNumber(part[2])
	if !ok1 || !ok2 {
		return gpu.DeviceName{}, false
	}
	return gpu.DeviceName{Node: "dri/renderD" + part[2]}, true
}

// parsePlacement parses the parts of a name after gpu-<minor>-mig-.
func parsePlacement(part []string) (*gpu.PartitionName, bool) {
	if len(part) < 3 {
		return nil, false
	}
	numbers := part[len(part)-2:]
	if isDigits(part[0]) {
		if _, ok := parseNumber(part[2]); !ok || len(part) != 3 {
			return nil, false
		}
		numbers = part[:2]
	}
	profile, ok1 := parseNumber(numbers[0])
	start, ok2 := parseNumber(numbers[1])
	if !ok1 || !ok2 || part[0] == "" {
		return nil, false
	}
	return &gpu.PartitionName{ProfileID: &profile, Start: &start}, true
}
