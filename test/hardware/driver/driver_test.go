package driver_test

import (
	"testing"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuledger/gpuledger/test/hardware/driver"
)

// TestSizes compares the sizes of our structs with go-nvml. cgo derived the types in go-nvml from NVIDIA's header.
func TestSizes(t *testing.T) {
	want := map[string]uintptr{
		"ProcessUtilizationSample": unsafe.Sizeof(nvml.ProcessUtilizationSample{}),
		"ProcessInfo":              unsafe.Sizeof(nvml.ProcessInfo{}),
		"FieldValue":               unsafe.Sizeof(nvml.FieldValue{}),
		"Sample":                   unsafe.Sizeof(nvml.Sample{}),
	}
	got := driver.Sizes()
	for name, size := range want {
		if got[name] != size {
			t.Errorf("%s has %d bytes, want %d", name, got[name], size)
		}
	}
}
