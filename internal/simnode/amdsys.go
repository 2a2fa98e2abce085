package simnode

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const kfdRoot = "devices/virtual/kfd/kfd"

// writeAMD writes only the constant files of amdgpu and amdkfd.
func writeAMD(dir string, sc *Scenario) error {
	if !sc.hasAMD() {
		return nil
	}
	const cpu = "cpu_cores_count 96\nsimd_count 0\ndrm_render_minor 0\nunique_id 0"
	nodes := []kfdNode{{"0", cpu}, {"0", cpu}}
	for i := range sc.GPUs {
		if sc.GPUs[i].AMD == nil {
			continue
		}
		if err := writeAMDGPU(dir, sc, i); err != nil {
			return fmt.Errorf("GPU %s: %w", sc.GPUs[i].Bus, err)
		}
		nodes = append(nodes, sc.kfdNodes(i)...)
	}
	topology := map[string]string{"generation_id": "2"}
	for i, n := range nodes {
		topology[fmt.Sprintf("nodes/%d/gpu_id", i)], topology[fmt.Sprintf("nodes/%d/properties", i)] = n.id, n.properties
	}
	if err := writeFiles(filepath.Join(dir, kfdRoot, "topology"), topology); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, kfdRoot, "proc"), 0o755); err != nil {
		return err
	}
	if err := writeFiles(filepath.Join(dir, "module/amdgpu"), map[string]string{"version": "6.12.12"}); err != nil {
		return err
	}
	return link(dir, "class/kfd/kfd", kfdRoot)
}

func writeAMDGPU(dir string, sc *Scenario, position int) error {
	g := &sc.GPUs[position]
	address := sysfsAddress(g.Bus)
	folder := pciFolder(address)
	if err := writePCI(dir, PCIDevice{Address: address, Vendor: "0x1002", Device: g.AMD.Device, Class: g.AMD.Class, Driver: "amdgpu"}); err != nil {
		return err
	}
	if err := writeFiles(filepath.Join(dir, folder), g.amdIdentity(position)); err != nil {
		return err
	}
	for i, d := range sc.drmDevices(position) {
		if i > 0 {
			folder = filepath.Join("devices/platform", d.name)
		}
		if err := writeDRM(dir, folder, "card"+strconv.Itoa(d.card), "renderD"+strconv.Itoa(d.minor)); err != nil {
			return err
		}
	}
	return nil
}

// writeDRM adds the nodes of a device in the kernel's graphics subsystem.
func writeDRM(dir, folder string, nodes ...string) error {
	for _, node := range nodes {
		path := filepath.Join(folder, "drm", node)
		if err := link(dir, filepath.Join(path, "device"), folder); err != nil {
			return err
		}
		if err := link(dir, filepath.Join("class/drm", node), path); err != nil {
			return err
		}
	}
	return nil
}

// amdIdentity returns the constant files of a GPU, by path in its folder.
func (g *GPU) amdIdentity(position int) map[string]string {
	files := map[string]string{
		"unique_id": g.UUID, "serial_number": g.Serial, "product_name": g.Model, "product_number": g.Part,
		"manufacturer": "AMD", "vbios_version": g.VBIOS, "numa_node": strconv.Itoa(position / 4),
		"mem_info_vram_total":         strconv.FormatUint(g.Memory, 10),
		"ras/features":                "feature mask: 0x5",
		"hwmon/hwmon0/name":           "amdgpu",
		"hwmon/hwmon0/temp2_label":    "junction",
		"hwmon/hwmon0/temp3_label":    "mem",
		"hwmon/hwmon0/freq1_label":    "sclk",
		"hwmon/hwmon0/freq2_label":    "mclk",
		"hwmon/hwmon0/power1_label":   "PPT",
		"hwmon/hwmon0/power1_cap":     microwatts(g.Limit),
		"hwmon/hwmon0/power1_cap_max": microwatts(g.MaxLimit), "hwmon/hwmon0/power1_cap_default": microwatts(g.MaxLimit),
		"current_link_width": "16", "max_link_width": "16", "pcie_replay_count": "0",
		"current_link_speed": g.AMD.linkSpeed(), "max_link_speed": g.AMD.linkSpeed(),
	}
	if g.AMD.Hive != "" {
		maps.Copy(files, map[string]string{
			"xgmi_device_id": decimal(hexID(g.UUID, "xgmi")[:16]), "xgmi_hive_info/xgmi_hive_id": decimal(g.AMD.Hive),
		})
	}
	if g.AMD.Dies > 1 {
		maps.Copy(files, map[string]string{
			"current_compute_partition": g.mode(), "available_compute_partition": "SPX, DPX, QPX, CPX",
			"current_memory_partition": "NPS1", "available_memory_partition": "NPS1, NPS4",
		})
	}
	return files
}

// The PCIe link of an MI300 has generation 5. Other links have generation 4.
func (a *AMD) linkSpeed() string {
	if a.Metrics == "1.3" {
		return "16.0 GT/s PCIe"
	}
	return "32.0 GT/s PCIe"
}

func microwatts(watts int) string { return strconv.Itoa(watts * 1e6) }

// amdState returns the files of a GPU that change, by path in its folder.
func amdState(w *world, position int) map[string][]byte {
	b := w.boards[position]
	power := "power1_input"
	if b.AMD.Metrics == "1.3" {
		power = "power1_average"
	}
	state := map[string]int{
		"gpu_busy_percent": b.busy, "mem_busy_percent": b.busy / 3, "mem_info_vram_used": int(w.memoryUsed(position)),
		"hwmon/hwmon0/" + power:    b.power * 1000,
		"hwmon/hwmon0/temp2_input": (b.temperature() + 4) * 1000,
		"hwmon/hwmon0/temp3_input": b.memoryTemperature() * 1000,
		"hwmon/hwmon0/freq1_input": smClock(b) * 1e6,
		"hwmon/hwmon0/freq2_input": memoryClock * 1e6,
	}
	files := map[string][]byte{"gpu_metrics": metrics(w, b)}
	for name, n := range state {
		files[name] = []byte(strconv.Itoa(n) + "\n")
	}
	for name, content := range b.errorFiles(w.elapsed()) {
		files[name] = []byte(content)
	}
	return files
}

type kfdNode struct{ id, properties string }

// There is one node for each part of the GPU.
func (sc *Scenario) kfdNodes(position int) []kfdNode {
	g := &sc.GPUs[position]
	var domain, bus int
	// location_id contains the PCI address in the kernel's format.
	_, _ = fmt.Sscanf(sysfsAddress(g.Bus), "%x:%x:", &domain, &bus)
	var nodes []kfdNode
	for part := range g.partCount() {
		nodes = append(nodes, kfdNode{g.kfdID(part), fmt.Sprintf(
			"cpu_cores_count 0\nsimd_count %d\nsimd_per_cu 4\nvendor_id 4098\ndevice_id %s\nlocation_id %d\ndomain %d\n"+
				"drm_render_minor %d\nhive_id %s\nunique_id %s\nnum_xcc %d",
			4*g.unitsOf(part), decimal(g.AMD.Device), bus<<8|part<<28, domain,
			sc.drmDevices(position)[part].minor, decimal(g.AMD.Hive), decimal(g.UUID), g.AMD.Dies/g.partCount())})
	}
	return nodes
}

// decimal returns 0 for an empty string.
func decimal(hex string) string {
	n, _ := strconv.ParseUint(strings.TrimPrefix(hex, "0x"), 16, 64)
	return strconv.FormatUint(n, 10)
}
