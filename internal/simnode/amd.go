package simnode

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AMD contains the properties that amdgpu exposes in files. The UUID of an AMD GPU in a scenario is the driver's
// unique_id with 16 hex digits. Its MIG instances are compute partitions.
type AMD struct {
	Device, Class string // PCI device id and class, in the format of sysfs
	// Metrics is the revision of gpu_metrics: 1.3 or 1.7.
	Metrics string
	Units   int // compute units
	// Dies is the number of compute dies (XCC) into which the GPU can be divided, or 1 if it cannot be divided.
	Dies int
	// Hive is the id of the GPU's XGMI hive, as 16 hex digits, or empty.
	Hive string
	// MemoryErrors is the interval between correctable memory errors, or 0 if there are no errors.
	MemoryErrors time.Duration
}

func (sc *Scenario) hasAMD() bool {
	return slices.ContainsFunc(sc.GPUs, func(g GPU) bool { return g.AMD != nil })
}

func (sc *Scenario) hasGraphics() bool {
	isGraphics := func(w Work) bool { return w.Context == Graphics && sc.GPUs[w.GPU].AMD != nil }
	inProcess := func(p Process) bool { return slices.ContainsFunc(p.Work, isGraphics) }
	inContainer := func(c Container) bool { return slices.ContainsFunc(c.Processes, inProcess) }
	return slices.ContainsFunc(sc.Pods, func(p Pod) bool { return slices.ContainsFunc(p.Containers, inContainer) })
}

func (g *GPU) mode() string {
	if g.MIG == nil {
		return "SPX"
	}
	return g.MIG.Instances[0].Profile
}

// amdResource returns the extended resource for a GPU. AMD's device plugin uses these names if resource_naming_strategy
// is mixed.
func (g *GPU) amdResource() string {
	if g.AMD.Dies == 1 {
		return "amd.com/gpu"
	}
	return "amd.com/" + strings.ToLower(g.mode()) + "_nps1"
}

// A drmDevice is a device of the kernel's graphics subsystem, with two device nodes.
type drmDevice struct {
	card, minor int
	// name is the PCI address of a GPU, or the name of a platform device. The driver creates platform devices for all
	// parts into which a GPU can be divided, except the first part. It also creates them if the GPU is not divided.
	name string
}

// The numbers begin at card1, because card0 belongs to the management controller.
func (sc *Scenario) drmDevices(position int) []drmDevice {
	next, platform := 0, 0
	for i := range sc.GPUs[:position] {
		if a := sc.GPUs[i].AMD; a != nil {
			next += a.Dies
			platform += a.Dies - 1
		}
	}
	g := &sc.GPUs[position]
	devices := []drmDevice{{name: sysfsAddress(g.Bus)}}
	for i := range g.AMD.Dies - 1 {
		devices = append(devices, drmDevice{name: "amdgpu_xcp_" + strconv.Itoa(platform+i)})
	}
	for i := range devices {
		devices[i].card, devices[i].minor = 1+next+i, 128+next+i
	}
	return devices
}

// kfdID returns the id of a GPU's part in amdkfd's topology.
func (g *GPU) kfdID(part int) string {
	id, _ := strconv.ParseUint(hexID(g.UUID, strconv.Itoa(part))[:4], 16, 64) // hexID returns hex digits
	return strconv.FormatUint(id+1, 10)
}

// occupy chooses at random which process runs on each part of the board at the end of a step. The process then occupies
// all compute units of the part.
func (b *board) occupy(step int64, how Sampling, loads []load, random *rand.Rand) {
	b.running = make([]uint32, b.partCount())
	for part := range b.running {
		var on []load
		for _, l := range loads {
			if l.instance == part && l.context != Graphics {
				on = append(on, l)
			}
		}
		point := random.IntN(100)
		if how.Even {
			point = evenly(step, 100)
		}
		b.running[part] = pick(on, point)
	}
}

func (g *GPU) unitsOf(part int) int {
	if g.MIG == nil {
		return g.AMD.Units
	}
	return g.AMD.Units * g.MIG.Instances[part].Slices / g.MIG.Slices
}

// errorFiles returns the files with the error counts and the retired pages, by path. elapsed is the time since the
// driver was loaded.
func (b *board) errorFiles(elapsed time.Duration) map[string]string {
	corrected := b.sinceLoad(DRAMCorrectable)
	if b.AMD.MemoryErrors > 0 {
		corrected += int64(elapsed / b.AMD.MemoryErrors)
	}
	var pages strings.Builder
	for page := range b.health[RowsUncorrectable] {
		fmt.Fprintf(&pages, "0x%08x : 0x%08x : R\n", page+1, 4096)
	}
	return map[string]string{
		"ras/umc_err_count":      fmt.Sprintf("ue: %d\nce: %d\nde: %d\n", b.sinceLoad(DRAMUncorrectable), corrected, b.sinceLoad(DRAMDeferred)),
		"ras/gfx_err_count":      fmt.Sprintf("ue: %d\nce: 0\n", b.sinceLoad(SRAMUncorrectable)),
		"ras/gpu_vram_bad_pages": pages.String(),
	}
}

// checkAMD returns an error if the model cannot represent an AMD GPU.
func (g *GPU) checkAMD() error {
	switch {
	case g.AMD == nil:
		return nil
	case g.AMD.Dies < 1 || g.AMD.Metrics != "1.3" && g.AMD.Metrics != "1.7":
		return fmt.Errorf("GPU %s: %d dies and revision %s of gpu_metrics: need at least 1 die and revision 1.3 or 1.7", g.UUID, g.AMD.Dies, g.AMD.Metrics)
	case g.Replicas > 0:
		return fmt.Errorf("GPU %s: AMD GPUs have no replicas", g.UUID)
	case g.MIG != nil && len(g.MIG.Instances) > g.AMD.Dies:
		return fmt.Errorf("GPU %s: %d partitions, but only %d dies", g.UUID, len(g.MIG.Instances), g.AMD.Dies)
	default:
		return nil
	}
}
