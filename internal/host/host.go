// Package host reads the machine through the kernel: its firmware identity, the GPUs on its PCI
// bus, its boot id and its clocks.
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

// Now returns the present moment: the wall clock, and CLOCK_BOOTTIME, which includes suspended
// time and never steps.
func Now() gpu.Instant {
	var ts unix.Timespec
	// This call cannot fail on Linux 2.6.39 and newer.
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return gpu.Instant{Wall: time.Now(), Boot: time.Duration(ts.Nano())}
}

// Host reads a machine through its /proc and /sys.
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

// Node reads the machine's identity from /sys/class/dmi/id. Only root can read serial numbers
// there; unreadable fields are empty.
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

// foreign lists kernel drivers that reserve a device, usually for a virtual machine
// (/sys/bus/pci/devices/*/driver).
var foreign = []string{"vfio-pci", "pci-stub"}

// CountPCI counts the devices of the given classes on the PCI bus, without reserved ones. A GPU
// that fell off the bus is counted until it is removed, so a lower count from the driver means
// that a GPU is missing.
//
// It does not use PciDevices of procfs, which reads thirty files per device and fails for all
// devices if one file is malformed.
func (h Host) CountPCI(gpus []gpu.PCIClass) (int, error) {
	dir := filepath.Join(h.SysFS, "bus/pci/devices")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("list PCI devices: %w", err)
	}
	n := 0
	for _, e := range entries {
		vendor, class := attribute(dir, e.Name(), "vendor"), attribute(dir, e.Name(), "class")
		if !slices.ContainsFunc(gpus, func(c gpu.PCIClass) bool {
			return vendor == c.Vendor && strings.HasPrefix(class, c.Class) &&
				(c.Attribute == "" || gpu.Identity(attribute(dir, e.Name(), c.Attribute)) != "")
		}) {
			continue
		}
		driver, _ := os.Readlink(filepath.Join(dir, e.Name(), "driver")) // an error means that no driver is bound
		if !slices.Contains(foreign, filepath.Base(driver)) {
			n++
		}
	}
	return n, nil
}

// attribute returns a device's attribute, or an empty string if it is unreadable: the device
// may have been removed.
func attribute(dir, device, name string) string {
	data, err := os.ReadFile(filepath.Join(dir, device, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
