// Package host reads data about the machine from the kernel: the machine's identity in its firmware, the GPUs on the
// PCI bus, the boot id, and the clocks.
package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs/sysfs"
	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Now returns the current time on the wall clock and on CLOCK_BOOTTIME. CLOCK_BOOTTIME includes the time in which the
// machine is suspended, and is never set.
func Now() gpu.Instant {
	var ts unix.Timespec
	// This call cannot fail on Linux 2.6.39 and newer.
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return gpu.Instant{Wall: time.Now(), Boot: time.Duration(ts.Nano())}
}

// Host reads data about a machine from its /proc and /sys.
type Host struct {
	ProcFS string
	SysFS  string
}

// BootID returns the id of the current boot (/proc/sys/kernel/random/boot_id).
func (h Host) BootID() (string, error) {
	data, err := os.ReadFile(filepath.Join(h.ProcFS, "sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	id := strings.TrimSpace(string(data))
	if id == "" {
		return "", errors.New("read boot id: the file is empty")
	}
	return id, nil
}

// Node reads the machine's identity from /sys/class/dmi/id. Unreadable fields are empty, because only root can read
// serial numbers.
func (h Host) Node() (gpu.Node, error) {
	fs, err := sysfs.NewFS(h.SysFS)
	if err != nil {
		return gpu.Node{}, fmt.Errorf("read DMI: %w", err)
	}
	dmi, err := fs.DMIClass()
	if err != nil {
		return gpu.Node{}, fmt.Errorf("read DMI: %w", err)
	}
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	return gpu.Node{
		SysVendor:       text(dmi.SystemVendor),
		ProductName:     text(dmi.ProductName),
		ProductSerial:   text(dmi.ProductSerial),
		BoardSerial:     text(dmi.BoardSerial),
		BoardAssetTag:   text(dmi.BoardAssetTag),
		ChassisSerial:   text(dmi.ChassisSerial),
		ChassisAssetTag: text(dmi.ChassisAssetTag),
		SystemUUID:      text(dmi.ProductUUID),
	}, nil
}

// CountPCI counts the PCI devices of the given classes that a source is expected to list. If the driver lists fewer
// GPUs, a GPU is missing.
//
// CountPCI does not use procfs.PciDevices, which reads thirty files per device. If one file is malformed, that function
// fails for all devices.
func (h Host) CountPCI(gpus []gpu.PCIClass) (int, error) {
	dir := filepath.Join(h.SysFS, "bus/pci/devices")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("list PCI devices: %w", err)
	}
	n := 0
	for _, e := range entries {
		vendor, class := attribute(dir, e.Name(), "vendor"), attribute(dir, e.Name(), "class")
		if slices.ContainsFunc(gpus, func(c gpu.PCIClass) bool {
			return vendor == c.Vendor && strings.HasPrefix(class, c.Class) && served(dir, e.Name(), c.Driver) &&
				(c.Attribute == "" || gpu.Identity(attribute(dir, e.Name(), c.Attribute)) != "")
		}) {
			n++
		}
	}
	return n, nil
}

// served reports whether a driver for GPUs serves a device, or should serve it. A GPU that fell off the bus remains
// bound to its driver. If a GPU has no driver, it could not be initialised, so a driver should serve it.
//
// If a device is bound to a different driver, a virtual machine uses it (vfio-pci and its variants, pciback), or it is
// used for a display (nouveau). driver_override reserves a device for such a driver in advance.
//
// In /sys, the folder of an SR-IOV virtual function contains a link to the GPU. This link is missing inside the virtual
// machine that uses the function.
func served(dir, device, driver string) bool {
	if _, err := os.Lstat(filepath.Join(dir, device, "physfn")); err == nil {
		return false
	}
	bound, err := os.Readlink(filepath.Join(dir, device, "driver"))
	if err == nil {
		return filepath.Base(bound) == driver
	}
	reserved := attribute(dir, device, "driver_override")
	return reserved == "" || reserved == "(null)" || reserved == driver
}

// attribute returns an empty string if the attribute cannot be read, for example because the device was removed.
func attribute(dir, device, name string) string {
	data, err := os.ReadFile(filepath.Join(dir, device, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
