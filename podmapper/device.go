package podmapper

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// These are the prefixes of the vendors' resource names.
const (
	nvidiaResources = "nvidia.com/"
	amdResources    = "amd.com/"
)

// parseDeviceID parses the id with which a device plugin registers a device with the kubelet. NVIDIA's plugin uses
// GPU-<uuid> and MIG-<uuid>, and MIG-GPU-<uuid>/<GPU instance>/<compute instance> with drivers before R470. With the
// index strategy, it uses <GPU> and <GPU>:<n-th MIG device>. Google's plugin on GKE uses the names of device nodes:
// nvidia<minor> and nvidia<minor>/gi<GPU instance>. AMD's plugin uses the names in the kernel: the PCI address of a
// GPU, and amdgpu_xcp_<n> for a partition. Any other id is parsed as a PCI address. If this is not possible, the id is
// used as the UUID. If the id is invalid, the name in the result is empty.
func parseDeviceID(resource, id string) device {
	plain, replica := splitReplica(id)
	name, ok := parseUUID(plain)
	if !ok {
		name, ok = parseNode(plain)
	}
	switch {
	case ok:
	case strings.HasPrefix(resource, nvidiaResources):
		name, ok = parseIndex(plain)
	case strings.HasPrefix(resource, amdResources):
		plain, replica = id, ""
		name, ok = parseAMD(id)
	default:
		plain, replica = id, ""
		if name, ok = parsePCI(id); !ok {
			name, ok = parseOpaque(id)
		}
	}
	if !ok {
		return device{resource: resource, id: id}
	}
	return device{resource: resource, id: plain, replica: replica, name: name}
}

// splitReplica splits the id of a shared device into the id of the device and the replica number. If the device is not
// shared, the replica number is empty. NVIDIA's plugin appends ::<n> to the id, and Google's plugin appends /vgpu<n>.
func splitReplica(id string) (plain, replica string) {
	for _, separator := range []string{"::", "/vgpu"} {
		if plain, replica, _ = strings.Cut(id, separator); isDigits(replica) {
			return plain, replica
		}
	}
	return id, ""
}

// parseUUID parses GPU-<uuid>, MIG-<uuid> and MIG-GPU-<uuid>/<GPU instance>/<compute instance>.
func parseUUID(id string) (gpu.DeviceName, bool) {
	kind, rest, _ := strings.Cut(id, "-")
	if (kind == "GPU" || kind == "MIG") && validUUID(rest) {
		return gpu.DeviceName{UUID: id}, true
	}
	part := strings.Split(rest, "/")
	if kind != "MIG" || len(part) != 3 {
		return gpu.DeviceName{}, false
	}
	plain, isGPU := strings.CutPrefix(part[0], "GPU-")
	instance, ok1 := parseNumber(part[1])
	_, ok2 := parseNumber(part[2])
	if !isGPU || !validUUID(plain) || !ok1 || !ok2 {
		return gpu.DeviceName{}, false
	}
	return gpu.DeviceName{UUID: part[0], Partition: &gpu.PartitionName{Instance: strconv.Itoa(instance)}}, true
}

// parseNode parses nvidia<minor> and nvidia<minor>/gi<GPU instance>.
func parseNode(id string) (gpu.DeviceName, bool) {
	path, part, isMIG := strings.Cut(id, "/")
	number, isNode := strings.CutPrefix(path, "nvidia")
	_, ok := parseNumber(number)
	if !isNode || !ok {
		return gpu.DeviceName{}, false
	}
	if !isMIG {
		return gpu.DeviceName{Node: path}, true
	}
	instance, isInstance := strings.CutPrefix(part, "gi")
	if _, ok := parseNumber(instance); !isInstance || !ok {
		return gpu.DeviceName{}, false
	}
	return gpu.DeviceName{Node: path, Partition: &gpu.PartitionName{Instance: instance}}, true
}

// node returns the path of an NVIDIA GPU's device node below /dev.
func node(minor int) string { return "nvidia" + strconv.Itoa(minor) }

// parseAMD parses the name of a device in sysfs, which is a PCI address, or amdgpu_xcp_<n> for a partition. The first
// partition of a divided GPU is listed by the GPU's PCI address. The id of a GPU that is passed through to a virtual
// machine is the number of an IOMMU group, which parseAMD rejects.
func parseAMD(id string) (gpu.DeviceName, bool) {
	number, isPartition := strings.CutPrefix(id, "amdgpu_xcp_")
	if !isPartition {
		return parsePCI(id)
	}
	if _, ok := parseNumber(number); !ok {
		return gpu.DeviceName{}, false
	}
	return gpu.DeviceName{Partition: &gpu.PartitionName{Device: id}}, true
}

// pciAddress matches a domain, bus, device and function. The kernel prints at least four digits of the domain.
var pciAddress = regexp.MustCompile(`^[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$`)

// parsePCI converts an address to the driver's format, which has upper-case letters and a domain with eight digits.
func parsePCI(id string) (gpu.DeviceName, bool) {
	if !pciAddress.MatchString(id) {
		return gpu.DeviceName{}, false
	}
	id = strings.Repeat("0", 8-strings.IndexByte(id, ':')) + strings.ToUpper(id)
	return gpu.DeviceName{PCIBusID: id}, true
}

// parseIndex parses <GPU> and <GPU>:<n-th MIG device>.
func parseIndex(id string) (gpu.DeviceName, bool) {
	first, second, isMIG := strings.Cut(id, ":")
	index, ok := parseNumber(first)
	if !ok {
		return gpu.DeviceName{}, false
	}
	if !isMIG {
		return gpu.DeviceName{Index: &index}, true
	}
	ordinal, ok := parseNumber(second)
	if !ok {
		return gpu.DeviceName{}, false
	}
	return gpu.DeviceName{Index: &index, Partition: &gpu.PartitionName{Ordinal: &ordinal}}, true
}

func isMIG(name gpu.DeviceName) bool {
	return name.Partition != nil || strings.HasPrefix(name.UUID, "MIG-")
}

// maxOpaque is the maximum length in bytes of device ids from vendors other than NVIDIA and AMD. Names in Kubernetes
// have the same limit.
const maxOpaque = 253

func parseOpaque(id string) (gpu.DeviceName, bool) {
	const separators = "-_.:/"
	const legal = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789" + separators
	if id == "" || len(id) > maxOpaque || strings.Trim(id, legal) != "" || strings.Trim(id, separators) != id {
		return gpu.DeviceName{}, false
	}
	return gpu.DeviceName{UUID: id}, true
}

// parseNumber parses a decimal number of up to four digits without a sign or leading zeros.
func parseNumber(s string) (int, bool) {
	if !isDigits(s) || len(s) > 4 || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
