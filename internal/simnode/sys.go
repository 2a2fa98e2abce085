package simnode

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func writeSys(dir string, sc *Scenario) error {
	for _, g := range sc.GPUs {
		if g.AMD != nil {
			continue
		}
		if err := writePCI(dir, PCIDevice{Address: sysfsAddress(g.Bus), Vendor: "0x10de", Device: "0x2330", Class: "0x030200", Driver: "nvidia"}); err != nil {
			return fmt.Errorf("GPU %s: %w", g.Bus, err)
		}
	}
	for _, d := range sc.Devices {
		if err := writePCI(dir, d); err != nil {
			return fmt.Errorf("PCI device %s: %w", d.Address, err)
		}
		if d.Class == managementDisplay {
			if err := writeDRM(dir, pciFolder(d.Address), "card0"); err != nil {
				return err
			}
		}
	}
	if err := writeAMD(dir, sc); err != nil {
		return err
	}
	return writeFiles(filepath.Join(dir, "class/dmi/id"), sc.DMI)
}

// The directory of NVIDIA's kernel module in /sys exists only while the module is loaded.
func (n *Node) writeModule() error {
	version := ""
	if n.world.driver.loaded {
		version = n.world.scenario.Driver.Version
	}
	if version == n.module {
		return nil
	}
	n.module = version
	dir := filepath.Join(n.dir, "sys/module/nvidia")
	if version == "" {
		return os.RemoveAll(dir)
	}
	return writeFiles(dir, map[string]string{"version": version})
}

// As in the kernel's /sys, the bus directory contains a link to the device's folder below the PCI root.
func writePCI(dir string, d PCIDevice) error {
	err := writeFiles(filepath.Join(dir, pciFolder(d.Address)), map[string]string{
		"vendor": d.Vendor, "device": d.Device, "class": d.Class,
		"subsystem_vendor": d.Vendor, "subsystem_device": d.Device, "revision": "0xa1",
	})
	if err != nil {
		return err
	}
	if d.Driver != "" {
		if err := bind(dir, d.Address, d.Driver); err != nil {
			return err
		}
	}
	if d.Function != "" {
		if err := link(dir, filepath.Join(pciFolder(d.Address), "physfn"), pciFolder(d.Function)); err != nil {
			return err
		}
	}
	return link(dir, filepath.Join("bus/pci/devices", d.Address), pciFolder(d.Address))
}

func bind(dir, address, driver string) error {
	driver = filepath.Join("bus/pci/drivers", driver)
	if err := link(dir, filepath.Join(driver, address), pciFolder(address)); err != nil {
		return err
	}
	return link(dir, filepath.Join(pciFolder(address), "driver"), driver)
}

func pciFolder(address string) string {
	return filepath.Join("devices", "pci"+address[:len("0000:00")], address)
}

// managementDisplay is the PCI class of a management controller's display device, which is card0.
const managementDisplay = "0x030000"

// In the kernel, a PCI address has a four-digit domain and lower-case letters.
func sysfsAddress(bus string) string {
	return strings.ToLower(strings.TrimPrefix(bus, "0000"))
}
