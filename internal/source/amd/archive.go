package amd

import (
	"archive/tar"
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// archived contains the files that the source reads below the mount point of sysfs.
var archived = []string{
	"module/amdgpu/version",
	"class/kfd/kfd/topology/generation_id",
	"class/kfd/kfd/topology/nodes/*/gpu_id", "class/kfd/kfd/topology/nodes/*/properties",
	"class/kfd/kfd/proc/*/vram_*", "class/kfd/kfd/proc/*/queues/*/gpuid", "class/kfd/kfd/proc/*/stats_*/cu_occupancy",
}

// ofDevice contains the files that the source reads below the folder of a GPU.
var ofDevice = []string{
	"vendor", "class", "device", "uevent", "unique_id", "serial_number", "product_name", "product_number", "vbios_version",
	"current_compute_partition", "available_compute_partition", "current_memory_partition",
	"gpu_metrics", xcpFile, "gpu_busy_percent", "mem_info_vram_used", "mem_info_vram_total",
	"hwmon/hwmon*/name", "hwmon/hwmon*/power1_*", "hwmon/hwmon*/temp*", "hwmon/hwmon*/freq*", "ras/*_err_count",
	"ras/gpu_vram_bad_pages", "current_link_*", "max_link_*", "pcie_replay_count",
	"xgmi_hive_info/xgmi_hive_id",
}

// Archive writes a tar archive with the files that the source reads on this machine, so that a test can replay them. It
// replaces serial numbers and the unique ids of GPUs and hives by invented, numbered values. It omits files that cannot
// be read. Archive fails if the driver is not loaded, and hangs if a GPU hangs.
func Archive(w io.Writer, sys, proc string) error {
	cards, err := scan(sys)
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	a := &archive{tar: tar.NewWriter(w), masks: make(map[string]string)}
	a.add("proc/sys/kernel/osrelease", []byte(readText(proc, "sys/kernel/osrelease")+"\n"))
	a.write(tar.Header{Name: "sys/bus/pci/drivers/amdgpu/", Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	a.write(tar.Header{Name: "sys/class/kfd/kfd/proc/", Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	for _, c := range cards {
		folder := "sys/bus/pci/devices/" + c.address
		for _, pattern := range ofDevice {
			a.addAll(c.folder, folder, pattern)
		}
		a.addDevice(c.number, folder, renderMinor(c.folder))
	}
	platforms := readPlatforms(sys)
	for _, minor := range slices.Sorted(maps.Keys(platforms)) {
		folder := "devices/platform/" + platforms[minor]
		a.addAll(filepath.Join(sys, folder), "sys/"+folder, xcpFile)
		a.addDevice(-1, "sys/"+folder, minor)
	}
	for _, pattern := range archived {
		a.addAll(sys, "sys", pattern)
	}
	return cmp.Or(a.err, a.tar.Close())
}

// An archive keeps the first error.
type archive struct {
	tar   *tar.Writer
	masks map[string]string // replacements by original value
	err   error
}

// addDevice adds the render node of a device. If number is not negative, it also adds the link of the device's card.
func (a *archive) addDevice(number int, folder, minor string) {
	if minor != "" {
		a.write(tar.Header{Name: folder + "/drm/renderD" + minor + "/", Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	}
	if number >= 0 {
		a.write(tar.Header{
			Name: fmt.Sprintf("sys/class/drm/card%d/device", number), Typeflag: tar.TypeSymlink,
			Linkname: "../../../" + strings.TrimPrefix(folder, "sys/"), Mode: 0o777,
		}, nil)
	}
}

func (a *archive) addAll(folder, as, pattern string) {
	matches, _ := filepath.Glob(filepath.Join(folder, pattern)) // the patterns are valid
	slices.Sort(matches)
	for _, path := range matches {
		content, err := readFile(path)
		if err != nil { // the path may also be a folder
			continue
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			continue
		}
		a.add(as+"/"+name, a.masked(filepath.Base(path), content))
	}
}

func (a *archive) add(name string, content []byte) {
	a.write(tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}, content)
}

func (a *archive) write(h tar.Header, content []byte) {
	if a.err != nil {
		return
	}
	if a.err = a.tar.WriteHeader(&h); a.err == nil {
		_, a.err = a.tar.Write(content)
	}
}

// topologyID matches two decimal numbers in the properties of a topology node: the GPU's unique id and its hive id.
var topologyID = regexp.MustCompile(`(?m)^(unique_id|hive_id) [1-9][0-9]*$`)

func (a *archive) masked(name string, content []byte) []byte {
	text := strings.TrimSpace(string(content))
	switch name {
	case "unique_id", "serial_number":
		if text == "" || strings.Trim(text, "0") == "" {
			return content
		}
		return []byte(a.mask(strings.ToLower(text)) + "\n")
	case "xgmi_hive_id":
		return []byte(a.maskDecimal(text) + "\n")
	case "properties":
		return topologyID.ReplaceAllFunc(content, func(line []byte) []byte {
			name, id, _ := strings.Cut(string(line), " ")
			return []byte(name + " " + a.maskDecimal(id))
		})
	}
	return content
}

// maskDecimal returns 0 if the text is not a number.
func (a *archive) maskDecimal(original string) string {
	id, err := strconv.ParseUint(original, 10, 64)
	if err != nil || id == 0 {
		return "0"
	}
	masked, _ := strconv.ParseUint(a.mask(fmt.Sprintf("%016x", id)), 16, 64) // a mask is hexadecimal
	return strconv.FormatUint(masked, 10)
}

// mask always returns the same replacement for the same original.
func (a *archive) mask(original string) string {
	if a.masks[original] == "" {
		a.masks[original] = fmt.Sprintf("5a1f%012x", len(a.masks)+1)
	}
	return a.masks[original]
}
