package nvml

import (
	"bytes"
	"fmt"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// identify keeps known values. Later it retries failed calls, except the calls that the driver does not support. Parts
// may be missing: boards without an InfoROM have no serial number, and only Blackwell and newer GPUs report their
// chassis.
func (g *gpuReader) identify() {
	q := &inquiry{lib: g.lib}
	h, d := g.handle, &g.device
	assign(q, &d.Model, "nvmlDeviceGetName", h.GetName)
	assign(q, &d.Serial, "nvmlDeviceGetSerial", h.GetSerial)
	assign(q, &d.BoardPartNumber, "nvmlDeviceGetBoardPartNumber", h.GetBoardPartNumber)
	assign(q, &d.VBIOSVersion, "nvmlDeviceGetVbiosVersion", h.GetVbiosVersion)
	assign(q, &d.DeviceNode, "nvmlDeviceGetMinorNumber", func() (string, ret) {
		minor, r := h.GetMinorNumber()
		_, r = available(uint32(minor), r)
		return fmt.Sprintf("nvidia%d", minor), r
	})
	assign(q, &d.PCIBusID, "nvmlDeviceGetPciInfo", func() (string, ret) {
		pci, r := h.GetPciInfo()
		return chars(pci.BusId[:]), r
	})
	assign(q, &d.Platform, "nvmlDeviceGetPlatformInfo", func() (gpu.Platform, ret) {
		info, r := h.GetPlatformInfo()
		return platform(info), r
	})
	assign(q, &d.MaxPower, "nvmlDeviceGetPowerManagementLimitConstraints", g.maxPower)
	if d.MaxPower == 0 {
		assign(q, &d.MaxPower, "nvmlDeviceGetEnforcedPowerLimit", func() (gpu.Watts, ret) {
			mw, r := available(h.GetEnforcedPowerLimit())
			return watts(mw), r
		})
	}
	g.readFabric(q)
	g.incomplete = q.retryable
}

func assign[T any](q *inquiry, to *T, symbol string, call func() (T, ret)) {
	if v, err := query(q, symbol, call); err == nil {
		*to = v
	}
}

func (g *gpuReader) maxPower() (gpu.Watts, ret) {
	_, mw, r := g.handle.GetPowerManagementLimitConstraints()
	mw, r = available(mw, r)
	return watts(mw), r
}

// go-nvml requests version 1 of the struct. Version 1 has the same layout and length as version 2, but its field for
// the chassis serial number is called rack GUID. A byte of 0xff means unknown.
func platform(info gonvml.PlatformInfo) gpu.Platform {
	return gpu.Platform{
		ChassisSerial: chassis(info.ChassisSerialNumber[:]),
		Slot:          known(info.SlotNumber),
		Tray:          known(info.TrayIndex),
		HostID:        known(info.HostId),
		PeerType:      known(info.PeerType),
		ModuleID:      known(info.ModuleId),
	}
}

func chassis(serial []byte) string {
	serial, _, _ = bytes.Cut(serial, []byte{0})
	if len(bytes.Trim(serial, "\xff")) == 0 {
		return ""
	}
	return string(serial)
}

func known(b uint8) *int {
	if b == 0xff {
		return nil
	}
	return new(int(b))
}

func clusterUUID(b [16]uint8) string {
	if b == [16]uint8{} {
		return ""
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func chars(s []int8) string {
	b := make([]byte, 0, len(s))
	for _, c := range s {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b)
}
