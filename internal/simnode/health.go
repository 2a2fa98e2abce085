package simnode

import (
	"fmt"
	"maps"
	"time"
)

// Generation is the architecture of an NVIDIA GPU. It determines which health values the driver reports.
type Generation int

// A Turing GPU retires pages instead of remapping rows, and has no NVLink (T4). A Blackwell GPU counts the NVLink
// errors of each link separately, in different fields (nvml.h, NVML_FI_DEV_NVLINK_COUNT_*).
const (
	Hopper Generation = iota
	Turing
	Ampere
	Blackwell
)

// Condition identifies an integer that describes a GPU's health: a count, a number of banks or links, or a state. In
// the truth, its name is the value of the constant.
type Condition string

// Counts begin at the start of the simulation. Times are in ns.
const (
	DRAMCorrectable   Condition = "dram_correctable"
	DRAMUncorrectable Condition = "dram_uncorrectable"
	DRAMDeferred      Condition = "dram_deferred" // deferred uncorrectable errors of an AMD GPU, in data that was not used yet
	SRAMUncorrectable Condition = "sram_uncorrectable"
	RowsCorrectable   Condition = "rows_correctable"   // remapped rows, or retired pages on Turing
	RowsUncorrectable Condition = "rows_uncorrectable" // remapped rows, or retired pages on Turing and on AMD GPUs
	RowPending        Condition = "row_pending"        // 1 if a row will be remapped at the next reset
	BanksMax          Condition = "banks_max"          // memory banks with the maximum number of spare rows
	BanksHigh         Condition = "banks_high"
	BanksPartial      Condition = "banks_partial"
	BanksLow          Condition = "banks_low"
	LinkReplays       Condition = "link_replays"
	LinkRecoveries    Condition = "link_recoveries" // failed links on Blackwell
	LinkCRCErrors     Condition = "link_crc_errors" // symbol errors on Blackwell
	LinksInactive     Condition = "links_inactive"
	SoftwareThermal   Condition = "software_thermal_ns"
	HardwareThermal   Condition = "hardware_thermal_ns"
	PowerBrake        Condition = "power_brake_ns"
	RecoveryAction    Condition = "recovery_action" // nvmlDeviceGpuRecoveryAction_t
	ClockReduction    Condition = "clock_reduction_mhz"
	Heat              Condition = "heat_celsius" // added to the temperature that the power causes
)

// Defect adds By to a condition of a GPU at the start of a span. It adds By again after each interval Every until the
// end of the span.
type Defect struct {
	Condition Condition
	Span
	Every time.Duration // multiple of 100 ms; 0 means once
	By    int64
}

// due reports whether the defect changes its condition in the step that begins at t.
func (d *Defect) due(t time.Duration) bool {
	if d.Every == 0 {
		return t == d.From
	}
	return d.covers(t) && (t-d.From)%d.Every == 0
}

func (b *board) worsen(t time.Duration) {
	for i := range b.Defects {
		if d := &b.Defects[i]; d.due(t) {
			b.health[d.Condition] += d.By
		}
	}
}

// newHealth returns nil if the GPU has no defects.
func newHealth(g *GPU) map[Condition]int64 {
	if len(g.Defects) == 0 {
		return nil
	}
	return map[Condition]int64{BanksMax: banks}
}

func (b *board) sinceLoad(c Condition) int64 { return b.health[c] - b.healthAtLoad[c] }

// links is the number of NVLink links of a GPU. banks is the number of its memory banks.
const (
	links = 18
	banks = 640
)

// zeroHealth contains NVML fields that are 0 in all scenarios: PCIe errors and limited clocks (nvml.h, NVML_FI_DEV_*).
var zeroHealth = []int{74, 76, 77, 78, 79, 94, 169, 173, 174, 175, 176, 177, 178, 179, 180, 181, 182, 183}

type healthRecord []any

func (r *healthRecord) add(key string, value any) { *r = append(*r, key, value) }

func (r *healthRecord) field(id int, value any) { r.add(fmt.Sprintf("field%d", id), value) }

func writeHealth(r *record, w *world, b *board) {
	fields := healthRecord{"gpu", b.UUID}
	fields.field(1, 1)
	fields.field(2, 1)
	for _, id := range zeroHealth {
		fields.field(id, 0)
	}
	traffic := uint64(b.counter()) // any number that never decreases
	fields.field(82, b.memoryTemperature())
	fields.field(188, b.MaxLimit*1000)
	fields.field(189, b.MaxLimit*1000)
	fields.field(190, b.Limit*1000)
	fields.field(197, 3_000*traffic)
	fields.field(198, 5_000*traffic)
	fields.addLink(b)
	fields.addMemory(b)
	r.line("health", fields...)
	writeDetails(r, w, b)
	if b.GPM && b.MIG == nil {
		writeProfile(r, b)
	}
	if b.Generation != Turing {
		writeLinks(r, b, traffic)
	}
}

// The PCIe link is slow while the GPU is idle.
func (r *healthRecord) addLink(b *board) {
	most := map[Generation]int{Turing: 3, Ampere: 4, Hopper: 5, Blackwell: 5}[b.Generation]
	generation, state := 1, 8
	if b.busy > 0 {
		generation, state = most, 0
	}
	r.add("pcie_generation", generation)
	r.add("pcie_generation_max", most)
	r.add("pcie_width", 16)
	r.add("pcie_width_max", 16)
	r.add("pstate", state)
	if b.MIG == nil {
		r.add("encoder", 0)
		r.add("decoder", 0)
	}
}

// addMemory adds two counts of memory errors: since the last load of the driver, and over the life of the board.
func (r *healthRecord) addMemory(b *board) {
	r.field(11, b.sinceLoad(DRAMCorrectable))
	r.field(12, b.sinceLoad(DRAMUncorrectable))
	r.field(22, b.health[DRAMCorrectable])
	r.field(23, b.health[DRAMUncorrectable])
	r.add("sram_volatile_corrected", 0)
	r.add("sram_volatile_uncorrected", b.sinceLoad(SRAMUncorrectable))
	r.add("sram_aggregate_corrected", 0)
	r.add("sram_aggregate_uncorrected", b.health[SRAMUncorrectable])
	if b.Generation == Turing {
		r.field(29, b.health[RowsCorrectable])
		r.field(30, b.health[RowsUncorrectable])
		r.field(31, b.health[RowPending])
		return
	}
	r.add("sram_threshold", 0)
	if b.MIG != nil {
		return
	}
	full := int64(banks)
	if b.health != nil {
		full = b.health[BanksMax]
	}
	r.add("banks_max", full)
	r.add("banks_high", b.health[BanksHigh])
	r.add("banks_partial", b.health[BanksPartial])
	r.add("banks_low", b.health[BanksLow])
	r.add("banks_none", 0)
}

// writeLinks assigns all errors to the first link.
func writeLinks(r *record, b *board, traffic uint64) {
	fields := healthRecord{"gpu", b.UUID, "field138.all", 9 * traffic, "field139.all", 9 * traffic}
	if b.Generation != Blackwell {
		fields.field(38, b.sinceLoad(LinkCRCErrors))
		fields.field(45, 0)
		fields.field(52, b.sinceLoad(LinkReplays))
		fields.field(59, b.sinceLoad(LinkRecoveries))
	}
	for link := range links {
		state := 1
		if int64(link) < b.health[LinksInactive] {
			state = 0
		}
		fields.add(linkKey(165, link), state)
	}
	r.line("health", fields...)
	if b.Generation == Blackwell {
		writeLinkErrors(r, b)
	}
}

// NVLink 5 has one field for each kind of error.
func writeLinkErrors(r *record, b *board) {
	errors := map[int]Condition{214: LinkRecoveries, 221: LinkCRCErrors}
	for _, id := range []int{206, 207, 208, 211, 212, 213, 214, 219, 221} {
		fields := healthRecord{"gpu", b.UUID, linkKey(id, 0), b.sinceLoad(errors[id])}
		for link := 1; link < links; link++ {
			fields.add(linkKey(id, link), 0)
		}
		r.line("health", fields...)
	}
}

func linkKey(id, link int) string {
	if link == 0 {
		return fmt.Sprintf("field%d", id)
	}
	return fmt.Sprintf("field%d.%d", id, link)
}

func (b *board) conditions() map[Condition]int64 { return maps.Clone(b.health) }

// GPM metrics have their ids from nvml.h. Activities are in percent, and rates are in MiB/s.
func writeProfile(r *record, b *board) {
	r.line("health", "gpu", b.UUID, "gpm1", b.busy, "gpm2", b.busy, "gpm3", b.busy/2, "gpm5", b.busy/3, "gpm10", b.busy/2,
		"gpm11", 0, "gpm12", b.busy/5, "gpm13", b.busy/10, "gpm20", 10*b.busy, "gpm21", 5*b.busy,
		"gpm30", b.busy, "gpm31", 0, "gpm40", 0, "gpm41", 0, "gpm50", 0, "gpm60", 100*b.busy, "gpm61", 110*b.busy)
}
