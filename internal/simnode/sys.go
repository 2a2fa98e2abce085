package simnode

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writeSys writes a /sys directory with the machine's PCI devices and its DMI identity.
func writeSys(dir string, sc *Scenario) error {
	for _, g := range sc.GPUs {
		if err := writePCI(dir, PCIDevice{sysfsAddress(g.Bus), "0x10de", "0x2330", "0x030200"}); err != nil {
			return fmt.Errorf("GPU %s: %w", g.Bus, err)
		}
	}
	for _, d := range sc.Devices {
		if err := writePCI(dir, d); err != nil {
			return fmt.Errorf("PCI device %s: %w", d.Address, err)
		}
	}
	return writeFiles(filepath.Join(dir, "class/dmi/id"), sc.DMI)
}

// writePCI adds a device. As in the kernel's /sys, the entry on the bus is a link to the device
// below its root.
func writePCI(dir string, d PCIDevice) error {
	root := filepath.Join("devices", "pci"+d.Address[:len("0000:00")])
	err := writeFiles(filepath.Join(dir, root, d.Address), map[string]string{
		"vendor": d.Vendor, "device": d.Device, "class": d.Class,
		"subsystem_vendor": d.Vendor, "subsystem_device": d.Device, "revision": "0xa1",
	})
	if err != nil {
		return err
	}
	bus := filepath.Join(dir, "bus/pci/devices")
	if err := os.MkdirAll(bus, 0o755); err != nil {
		return err
	}
	return os.Symlink(filepath.Join("../../..", root, d.Address), filepath.Join(bus, d.Address))
}

// sysfsAddress converts NVML's format of an address to the kernel's: a domain of four digits, in
// lower case.
func sysfsAddress(bus string) string {
	return strings.ToLower(strings.TrimPrefix(bus, "0000"))
}
