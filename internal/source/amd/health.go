package amd

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A value that the GPU does not report is absent from the result of readHealth.
func (r *reader) readHealth() []gpu.HealthValue {
	var h healthValues
	r.addMemoryErrors(&h)
	r.addRetiredPages(&h)
	r.addPCIe(&h)
	r.limited.values(&h)
	h.add(gpu.MemoryTemperature, r.labelled("temp", "mem").below(maxMillidegrees), 1e3)
	h.add(gpu.PowerLimits, r.sensor("power1_cap_max").below(maxMicrowatts), 1e6, "max")
	h.add(gpu.PowerLimits, r.sensor("power1_cap_default").below(maxMicrowatts), 1e6, "default")
	h.add(gpu.PowerLimits, r.sensor("power1_cap").below(maxMicrowatts), 1e6, "enforced")
	return h
}

// A temperature or a power limit above its maximum is invalid.
const (
	maxMillidegrees = 200_000
	maxMicrowatts   = 1e11
)

func (v value) below(limit uint64) value { return value{v.n, v.ok && v.n < limit} }

type healthValues []gpu.HealthValue

// In add, v is in the driver's unit, and units is the number of the driver's units in one base unit.
func (h *healthValues) add(metric gpu.HealthMetric, v value, units float64, labels ...string) {
	if v.ok {
		*h = append(*h, gpu.HealthValue{Metric: metric, Labels: labels, Value: float64(v.n) / units})
	}
}

// memoryOf contains the blocks that count memory errors (Linux, amdgpu_ras.h). Other blocks are links, buses and
// processors.
var memoryOf = map[string]string{
	"umc": "dram",
	"gfx": "sram", "sdma": "sram", "mmhub": "sram", "athub": "sram", "hdp": "sram", "vcn": "sram", "jpeg": "sram",
}

// memoryCounters counts deferred errors in the GPU's memory as uncorrectable errors. The driver counts such an error
// either as "uncorrectable" or as "deferred", but never as both (Linux, umc_v12_0.c).
func (r *reader) memoryCounters() (all []gpu.Counter) {
	for _, e := range r.ras {
		memory, kind, part := memoryOf[e.Block], string(e.Type), e.Block
		if e.Type == gpu.RASDeferred {
			kind, part = string(gpu.RASUncorrectable), e.Block+" deferred"
		}
		if memory == "dram" || memory == "sram" && e.Type != gpu.RASDeferred {
			all = append(all, gpu.NewCounter(gpu.ECCErrors, []string{memory, kind}, part))
			all[len(all)-1].Count = e.Count
		}
	}
	return all
}

// addMemoryErrors adds the sums of the errors over all blocks. If the count of a block is no longer known, the sum is
// absent. A sum without this block would look like a counter that restarted.
func (r *reader) addMemoryErrors(h *healthValues) {
	counts := make(map[rasKey]uint64, len(r.ras))
	for _, e := range r.ras {
		counts[rasKey{e.Block, e.Type}] = e.Count
	}
	for _, memory := range []string{"dram", "sram"} {
		for _, kind := range []gpu.RASType{gpu.RASCorrectable, gpu.RASUncorrectable} {
			sum, blocks, complete := uint64(0), 0, true
			for key := range r.errors {
				if memoryOf[key.block] != memory || key.kind != kind {
					continue
				}
				n, known := counts[key]
				sum, blocks, complete = sum+n, blocks+1, complete && known
			}
			h.add(gpu.ECCErrors, value{sum, complete && blocks > 0}, 1, memory, string(kind))
		}
	}
}

// maxBadPages is the maximum size of the list of bad pages, in bytes. A line has 28 bytes.
const maxBadPages = 1 << 20

// Retired pages are pages that the driver no longer uses because of uncorrectable errors.
func (r *reader) addRetiredPages(h *healthValues) {
	path := filepath.Join(r.card.folder, "ras", "gpu_vram_bad_pages")
	if !exists(path) {
		return
	}
	content, err := readUpTo(maxBadPages, path)
	retired, pending := uint64(0), uint64(0)
	if err == nil {
		retired, pending, err = parseBadPages(string(content))
	}
	if err != nil {
		r.logOnce("retired pages are unknown", err)
		return
	}
	h.add(gpu.RetiredPages, value{retired, true}, 1, "uncorrectable")
	h.add(gpu.RetiredPagesPending, value{min(pending, 1), true}, 1)
}

// parseBadPages counts the lines of gpu_vram_bad_pages, such as "0x00000001 : 0x00001000 : R". Each line contains the
// page number, the page size and a letter. R means a reserved page, P a pending page, and F a page that could not be
// reserved (Linux, amdgpu_ras.c).
func parseBadPages(content string) (retired, pending uint64, err error) {
	if content = strings.TrimSpace(content); content == "" {
		return 0, 0, nil
	}
	for line := range strings.Lines(content) {
		fields := strings.Split(strings.TrimSpace(line), " : ")
		switch {
		case len(fields) != 3 || !isHex(fields[0]) || !isHex(fields[1]):
			return 0, 0, fmt.Errorf("parse gpu_vram_bad_pages: malformed line %q", strings.TrimSpace(line[:min(len(line), 64)]))
		case fields[2] == "R":
			retired++
		case fields[2] == "P" || fields[2] == "F":
			pending++
		default:
			return 0, 0, fmt.Errorf("parse gpu_vram_bad_pages: unknown flag %q", fields[2][:min(len(fields[2]), 64)])
		}
	}
	return retired, pending, nil
}

func isHex(text string) bool {
	digits, prefixed := strings.CutPrefix(text, "0x")
	_, err := strconv.ParseUint(digits, 16, 64)
	return prefixed && err == nil
}

// The maximum speed and width depend on both the GPU and the PCIe port above it. The number of replays is the sum of
// NAKs in both directions.
func (r *reader) addPCIe(h *healthValues) {
	device, port := r.card.folder, ""
	if path, err := filepath.EvalSymlinks(device); err == nil {
		port = filepath.Dir(path)
	}
	h.add(gpu.PCIeLinkWidth, linkWidth(device, "current_link_width"), 1)
	h.add(gpu.PCIeLinkWidthMax, lower(linkWidth(device, "max_link_width"), linkWidth(port, "max_link_width")), 1)
	h.add(gpu.PCIeLinkGeneration, linkGeneration(device, "current_link_speed"), 1)
	h.add(gpu.PCIeLinkGenerationMax, lower(linkGeneration(device, "max_link_speed"), linkGeneration(port, "max_link_speed")), 1)
	h.add(gpu.PCIeErrors, r.number("pcie_replay_count").below(1<<63), 1, "replay")
}

// The file of a link width contains 0 or 63 while the link is down, and 255 if the width is unknown (Linux,
// pci-sysfs.c).
func linkWidth(folder, name string) value {
	n, err := readNumber(folder, name)
	return value{n, err == nil && n > 0 && n <= maxLanes}
}

// The speed of a link is "Unknown" while the link is down.
func linkGeneration(folder, name string) value {
	g := generations[strings.TrimSuffix(readText(folder, name), " PCIe")]
	return value{g, g > 0}
}

// lower returns a if b is unknown.
func lower(a, b value) value {
	if a.ok && b.ok {
		a.n = min(a.n, b.n)
	}
	return a
}

const maxLanes = 32

// generations contains the PCIe generation by speed (Linux, pci_speed_string). Older kernels write whole numbers
// without a decimal point.
var generations = map[string]uint64{
	"2.5 GT/s": 1, "5.0 GT/s": 2, "5 GT/s": 2, "8.0 GT/s": 3, "8 GT/s": 3, "16.0 GT/s": 4, "16 GT/s": 4,
	"32.0 GT/s": 5, "32 GT/s": 5, "64.0 GT/s": 6,
}

// clockLimits contains the labels of the residencies, in the order of gpu_metrics. A residency counts the firmware
// cycles for which one reason limited the clocks.
var clockLimits = [numLimits]string{"prochot", "power_cap", "socket_thermal", "regulator_thermal", "memory_thermal"}

// A limitMeter measures the time for which each reason limited the clocks. The firmware counts cycles of unknown
// length. Therefore the meter multiplies the time between two readings by the share of limited cycles.
type limitMeter struct {
	limits [numLimits]limit
	// thermal is the time for which heat limited the clocks. Several thermal limits may overlap, so between two
	// readings only the longest limited time is added.
	thermal time.Duration
}

type limit struct {
	cycles, all  uint64 // limited cycles and all cycles at the last reading
	at           gpu.Instant
	seconds      float64
	begun, known bool
}

func (x *limitMeter) add(m metrics, at gpu.Instant) {
	longest := 0.0
	for i := range x.limits {
		if grown := x.limits[i].add(m.limits[i], m.samples, at); isThermal(i) {
			longest = max(longest, grown)
		}
	}
	x.thermal += time.Duration(longest * float64(time.Second))
}

// add adds nothing if a count decreased, or if there were more limited cycles than cycles in total.
func (l *limit) add(cycles, all value, at gpu.Instant) (grown float64) {
	if l.known = cycles.ok && all.ok; !l.known {
		return 0
	}
	if l.begun && cycles.n >= l.cycles && all.n > l.all {
		if share := float64(cycles.n-l.cycles) / float64(all.n-l.all); share <= 1 {
			grown = share * at.Sub(l.at).Seconds()
		}
	}
	l.seconds += grown
	l.cycles, l.all, l.at, l.begun = cycles.n, all.n, at, true
	return grown
}

// isThermal returns false for PROCHOT, because the machine asserts it for a reason that the driver does not report.
func isThermal(limit int) bool { return strings.HasSuffix(clockLimits[limit], "_thermal") }

// throttled returns nil if the last reading contained no thermal limit.
func (x *limitMeter) throttled() *gpu.ThrottledTimes {
	for i := range x.limits {
		if isThermal(i) && x.limits[i].known {
			return &gpu.ThrottledTimes{gpu.ThrottleThermal: x.thermal}
		}
	}
	return nil
}

func (x *limitMeter) values(h *healthValues) {
	for i := range x.limits {
		if x.limits[i].known {
			*h = append(*h, gpu.HealthValue{Metric: gpu.ClockLimitedTime, Labels: []string{clockLimits[i]}, Value: x.limits[i].seconds})
		}
	}
}
