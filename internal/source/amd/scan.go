package amd

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// PCIClasses match the GPUs that are read: processing accelerators, 3D controllers, and other display controllers
// such as MI100 and MI200. Integrated GPUs also belong to the last of these classes, but they have no unique id.
var PCIClasses = []gpu.PCIClass{
	{Vendor: vendorID, Class: "0x1200", Driver: driverName},
	{Vendor: vendorID, Class: "0x0302", Driver: driverName},
	{Vendor: vendorID, Class: "0x0380", Driver: driverName, Attribute: "unique_id"},
}

const (
	vendorID   = "0x1002"
	driverName = "amdgpu"
)

// At least one of these folders exists while the driver is loaded.
var driverFolders = []string{"bus/pci/drivers/" + driverName, "module/" + driverName}

var (
	cardName     = regexp.MustCompile(`^card([0-9]{1,4})$`)
	addressName  = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	platformName = regexp.MustCompile(`^amdgpu_xcp_[0-9]{1,4}$`)
)

type card struct {
	address string // address on the PCI bus, such as 0000:1b:00.0
	folder  string // folder of its files
	number  int    // number in the file name card<number>
}

// scan returns the GPUs sorted by the number of their card.
func scan(sys string) ([]card, error) {
	if !slices.ContainsFunc(driverFolders, func(f string) bool { return exists(sys, f) }) {
		return nil, fmt.Errorf("driver amdgpu is not loaded: no %s", filepath.Join(sys, driverFolders[0]))
	}
	root := filepath.Join(sys, "class/drm")
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("list GPUs: %w", err)
	}
	var cards []card
	for _, e := range entries {
		match := cardName.FindStringSubmatch(e.Name())
		if match == nil {
			continue
		}
		c := card{folder: filepath.Join(root, e.Name(), "device")}
		c.number, _ = strconv.Atoi(match[1])
		c.address = address(c.folder)
		if addressName.MatchString(c.address) && isGPU(c.folder) {
			cards = append(cards, c)
		}
	}
	slices.SortFunc(cards, func(a, b card) int { return a.number - b.number })
	return cards, nil
}

// address returns the PCI address of a PCI device, or the name of a device of another kind.
func address(folder string) string {
	if target, err := os.Readlink(folder); err == nil {
		return filepath.Base(target)
	}
	for line := range strings.Lines(readText(folder, "uevent")) { // a recorded tree has folders in place of links
		if slot, ok := strings.CutPrefix(strings.TrimSpace(line), "PCI_SLOT_NAME="); ok {
			return slot
		}
	}
	return ""
}

func isGPU(folder string) bool {
	vendor, class := readText(folder, "vendor"), readText(folder, "class")
	return slices.ContainsFunc(PCIClasses, func(c gpu.PCIClass) bool {
		return vendor == c.Vendor && strings.HasPrefix(class, c.Class)
	})
}

// readPlatforms maps the minor number of a render node to the name of its platform device, which is a partition of a
// GPU.
func readPlatforms(sys string) map[string]string {
	names := make(map[string]string)
	root := filepath.Join(sys, "devices/platform")
	entries, _ := os.ReadDir(root)
	for _, e := range entries {
		if platformName.MatchString(e.Name()) {
			names[renderMinor(filepath.Join(root, e.Name()))] = e.Name()
		}
	}
	delete(names, "")
	return names
}
