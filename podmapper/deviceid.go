package podmapper

import "strings"

// parseDeviceID reads the id of a device as NVIDIA's device plugin registers it
// with the kubelet: GPU-<uuid> for a whole GPU, GPU-<uuid>::<n> for its n-th
// replica when the GPU is shared. The replica is empty for a whole GPU.
func parseDeviceID(id string) (uuid, replica string, ok bool) {
	uuid, replica, shared := strings.Cut(id, "::")
	plain, isGPU := strings.CutPrefix(uuid, "GPU-")
	if !isGPU || !validUUID(plain) || shared && !isDigits(replica) {
		return "", "", false
	}
	return uuid, replica, true
}

// isDigits reports whether s is a decimal number.
func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
