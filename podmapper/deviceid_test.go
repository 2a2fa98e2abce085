package podmapper

import (
	"strings"
	"testing"
)

func TestParseDeviceID(t *testing.T) {
	const gpuID = "GPU-5a6b7c8d-0102-0304-0506-0708090a0b0c"
	tests := []struct {
		name, id, uuid, replica string
		ok                      bool
	}{
		{"whole", gpuID, gpuID, "", true},
		{"replica", gpuID + "::0", gpuID, "0", true},
		{"replica of many", gpuID + "::11", gpuID, "11", true},

		{"replica without number", gpuID + "::", "", "", false},
		{"replica not a number", gpuID + "::a", "", "", false},
		{"replica of a replica", gpuID + "::1::2", "", "", false},
		{"MIG", "MIG-5a6b7c8d-0102-0304-0506-0708090a0b0c", "", "", false},
		{"old MIG", "MIG-" + gpuID + "/1/0", "", "", false},
		{"index", "0", "", "", false},
		{"bare UUID", "5a6b7c8d-0102-0304-0506-0708090a0b0c", "", "", false},
		{"short UUID", gpuID[:len(gpuID)-1], "", "", false},
		{"not hexadecimal", strings.Replace(gpuID, "5", "x", 1), "", "", false},
		{"empty", "", "", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			uuid, replica, ok := parseDeviceID(tt.id)
			if uuid != tt.uuid || replica != tt.replica || ok != tt.ok {
				t.Errorf("parseDeviceID(%q) = %q, %q, %v, want %q, %q, %v", tt.id, uuid, replica, ok, tt.uuid, tt.replica, tt.ok)
			}
		})
	}
}

func FuzzDeviceID(f *testing.F) {
	f.Add("GPU-5a6b7c8d-0102-0304-0506-0708090a0b0c")
	f.Add("GPU-5a6b7c8d-0102-0304-0506-0708090a0b0c::3")
	f.Add("MIG-GPU-5a6b7c8d-0102-0304-0506-0708090a0b0c/1/0")
	f.Fuzz(func(t *testing.T, id string) {
		uuid, replica, ok := parseDeviceID(id)
		if !ok {
			if uuid != "" || replica != "" {
				t.Errorf("parseDeviceID(%q) = %q, %q without ok", id, uuid, replica)
			}
			return
		}
		if !strings.HasPrefix(uuid, "GPU-") || !validUUID(uuid[4:]) {
			t.Errorf("UUID %q is not well formed", uuid)
		}
		if again := uuid + "::" + replica; again != id && (replica != "" || uuid != id) {
			t.Errorf("parseDeviceID(%q) = %q, %q, which is another id", id, uuid, replica)
		}
	})
}
