package podmapper

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// ownResources begins the names of NVIDIA's resources.
const ownResources = "nvidia.com/"

// parseDeviceID reads the id of a device as a device plugin registers it with the
// kubelet. NVIDIA's are GPU-<uuid>, MIG-<uuid> or, of drivers before R470,
// MIG-GPU-<uuid>/<GPU instance>/<compute instance>; by the index strategy <GPU> or
// <GPU>:<n-th MIG device>. Google's plugin on GKE names device nodes: nvidia<minor> or
// nvidia<minor>/gi<GPU instance>. Other vendors' plugins, such as AMD's, use PCI addresses.
// Other ids are passed on unchanged. A device whose id is not understood has no name.
func parseDeviceID(resource, id string) device {
	plain, replica := splitReplica(id)
	name, ok := parseUUID(plain)
	if !ok {
		name, ok = parseNode(plain)
	}
	switch {
	case ok:
	case strings.HasPrefix(resource, ownResources):
		name, ok = parseIndex(plain)
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

// splitReplica splits the number of a replica from the id of a device that is shared:
// ::<n> by NVIDIA's plugin, /vgpu<n> by Google's. It is empty for a whole device.
func splitReplica(id string) (plain, replica string) {
	for _, separator := range []string{"::", "/vgpu"} {
		if plain, replica, _ = strings.Cut(id, separator); isDigits(replica) {
			return plain, replica
		}
	}
	return id, ""
}

// parseUUID reads GPU-<uuid>, MIG-<uuid> and MIG-GPU-<uuid>/<gi>/<ci>.
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
	return gpu.DeviceName{UUID: part[0], MIG: &gpu.PartitionName{Instance: strconv.Itoa(instance)}}, true
}

// parseNode reads nvidia<minor> and nvidia<minor>/gi<GPU instance>.
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
	return gpu.DeviceName{Node: path, MIG: &gpu.PartitionName{Instance: instance}}, true
}

// node returns the path of the device node of an NVIDIA GPU with a minor number, below /dev.
func node(minor int) string { return "nvidia" + strconv.Itoa(minor) }

// pciAddress is a PCI address: domain, bus, device and function.
var pciAddress = regexp.MustCompile(`^[0-9a-fA-F]{4}([0-9a-fA-F]{4})?:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$`)

// parsePCI reads a PCI address, in the spelling of the kernel or of the driver. The name has
// the driver's: a domain of eight digits, in capitals.
func parsePCI(id string) (gpu.DeviceName, bool) {
	if !pciAddress.MatchString(id) {
		return gpu.DeviceName{}, false
	}
	id = strings.ToUpper(id)
	if strings.IndexByte(id, ':') == 4 {
		id = "0000" + id
	}
	return gpu.DeviceName{PCIBusID: id}, true
}

// parseIndex reads <GPU> and <GPU>:<n-th MIG device>.
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
	return gpu.DeviceName{Index: &index, MIG: &gpu.PartitionName{Ordinal: &ordinal}}, true
}

// isMIG reports whether a name is that of a MIG device.
func isMIG(name gpu.DeviceName) bool { return name.MIG != nil || strings.HasPrefix(name.UUID, "MIG-") }

// maxOpaque is the longest id of another vendor that is believed, in bytes: as long
// as a name in Kubernetes may be.
const maxOpaque = 253

// parseOpaque reads another id of another vendor's device.
func parseOpaque(id string) (gpu.DeviceName, bool) {
	const separators = "-_.:/"
	const legal = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789" + separators
	if id == "" || len(id) > maxOpaque || strings.Trim(id, legal) != "" || strings.Trim(id, separators) != id {
		return gpu.DeviceName{}, false
	}
	return gpu.DeviceName{UUID: id}, true
}

// parseNumber reads a small decimal number without a sign or leading zeros.
func parseNumber(s string) (int, bool) {
	if !isDigits(s) || len(s) > 4 || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// isDigits reports whether s is a decimal number.
func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
