package table

import (
	"cmp"
	"slices"
	"time"
)

// GPU contains the place, the health and the energy of a GPU in one hour. The place is the node, the chassis and the
// slot. Unknown strings are empty.
type GPU struct {
	// Cluster and Hour are empty in an [Hour].
	Cluster                                                                                string
	Hour                                                                                   time.Time
	Node, UUID, Serial, ChassisSerial, ChassisSlot, TrayIndex, PCIBusID, Model, SystemUUID string
	Machine                                                                                string // name of the machine at its provider
	// First and Last are the times of the first and the last scrape of the GPU in this place. They are zero if the GPU
	// was not scraped. Scrapes is the number of scrapes.
	First, Last time.Time
	Scrapes     int64
	Energy      int64 // mJ
	// EnergySource and EnergyScope describe the energy counter.
	EnergySource, EnergyScope string
	XIDs                      Counts // number of XID errors by code
	Losses, EnergyResets      int64
	// RemappedCorrectable and RemappedUncorrectable count memory rows that were remapped because of correctable or
	// uncorrectable errors.
	RemappedCorrectable, RemappedUncorrectable int64
	// Uncounted is an upper bound of the energy that Energy lacks. Estimated is the part of Energy that was divided
	// among owners with an estimate of the idle power. Both are in mJ.
	Uncounted, Estimated int64
	// The values below are nil if the GPU or an earlier exporter did not report them. Memory errors occur in DRAM (the
	// memory of the GPU) or in SRAM (its caches and registers).
	DRAMCorrectable, DRAMUncorrectable, SRAMCorrectable, SRAMUncorrectable *int64
	// LifetimeUncorrectable counts uncorrectable errors over the life of the board.
	LifetimeUncorrectable *int64
	RetiredPages          *int64
	// LowMemoryBanks is the number of memory banks with few or no spare rows.
	LowMemoryBanks            *int64
	PCIeReplays, NVLinkErrors *int64
	Thermal, PowerBrake       *int64 // time with reduced clocks, in ms
	// RecoveryAction is the action that the driver requires. It is "none" if no action is required, and empty if the
	// action is unknown.
	RecoveryAction string
}

var (
	place = []Field[GPU]{
		text("node", "node", func(g *GPU) *string { return &g.Node }),
		text("uuid", "UUID of the GPU", func(g *GPU) *string { return &g.UUID }),
		text("serial", "serial number of the board, empty if unknown", func(g *GPU) *string { return &g.Serial }),
		text("chassis_serial", "serial number of the chassis", func(g *GPU) *string { return &g.ChassisSerial }),
		text("chassis_slot", "slot in the chassis", func(g *GPU) *string { return &g.ChassisSlot }),
		text("tray_index", "tray in the chassis", func(g *GPU) *string { return &g.TrayIndex }),
		text("pci_bus_id", "PCI address", func(g *GPU) *string { return &g.PCIBusID }),
		text("model", "model of the GPU", func(g *GPU) *string { return &g.Model }),
		text("system_uuid", "system UUID of the machine", func(g *GPU) *string { return &g.SystemUUID }),
		text("machine", "name of the machine at its provider", func(g *GPU) *string { return &g.Machine }),
		moment("first_seen", "first scrape in the hour with the GPU present", func(g *GPU) *time.Time { return &g.First }),
		moment("last_seen", "last scrape in the hour with the GPU present", func(g *GPU) *time.Time { return &g.Last }),
		integer("scrapes", "scrapes in the hour with the GPU present", func(g *GPU) *int64 { return &g.Scrapes }),
	}
	health = []Field[GPU]{
		integer("energy_mj", "energy of the board in millijoules", func(g *GPU) *int64 { return &g.Energy }),
		text("energy_source", "source of the energy counter", func(g *GPU) *string { return &g.EnergySource }),
		text("energy_scope", "scope of the energy counter", func(g *GPU) *string { return &g.EnergyScope }),
		counts("xids", "XID errors as code=count, separated by spaces", func(g *GPU) *Counts { return &g.XIDs }),
		integer("losses", "number of times that the driver lost the GPU", func(g *GPU) *int64 { return &g.Losses }),
		integer("energy_resets", "resets of the energy counter", func(g *GPU) *int64 { return &g.EnergyResets }),
		integer("remapped_correctable", "memory rows remapped for correctable errors", func(g *GPU) *int64 { return &g.RemappedCorrectable }),
		integer("remapped_uncorrectable", "memory rows remapped for uncorrectable errors", func(g *GPU) *int64 { return &g.RemappedUncorrectable }),
		integer("uncounted_mj", "upper bound of the energy that was lost by resets, rejected readings and gaps", func(g *GPU) *int64 { return &g.Uncounted }).addedIn(10),
		integer("estimated_mj", "part of the energy that was divided among several owners based on an estimated idle power", func(g *GPU) *int64 { return &g.Estimated }).addedIn(10),
	}
	// ErrorFields contains the columns for the errors of a GPU.
	ErrorFields = []Field[GPU]{
		optional("dram_correctable", "correctable errors in the GPU's memory", func(g *GPU) **int64 { return &g.DRAMCorrectable }).addedIn(18),
		optional("dram_uncorrectable", "uncorrectable errors in the GPU's memory", func(g *GPU) **int64 { return &g.DRAMUncorrectable }).addedIn(18),
		optional("sram_correctable", "correctable errors in caches and registers", func(g *GPU) **int64 { return &g.SRAMCorrectable }).addedIn(18),
		optional("sram_uncorrectable", "uncorrectable errors in caches and registers", func(g *GPU) **int64 { return &g.SRAMUncorrectable }).addedIn(18),
		optional("lifetime_uncorrectable", "uncorrectable errors over the life of the board, at the last scrape of the hour", func(g *GPU) **int64 { return &g.LifetimeUncorrectable }).addedIn(18),
		optional("retired_pages", "pages of memory retired", func(g *GPU) **int64 { return &g.RetiredPages }).addedIn(18),
		optional("low_memory_banks", "banks of memory with few or no spare rows, at the last scrape of the hour", func(g *GPU) **int64 { return &g.LowMemoryBanks }).addedIn(18),
		optional("pcie_replays", "packets that the PCIe link sent again because of errors", func(g *GPU) **int64 { return &g.PCIeReplays }).addedIn(18),
		optional("nvlink_errors", "NVLink errors", func(g *GPU) **int64 { return &g.NVLinkErrors }).addedIn(18),
		optional("thermal_ms", "time in which the driver reduced the clocks because of heat", func(g *GPU) **int64 { return &g.Thermal }).addedIn(18),
		optional("power_brake_ms", "time in which the driver reduced the clocks because of the power brake", func(g *GPU) **int64 { return &g.PowerBrake }).addedIn(18),
		text("recovery_action", "action that the driver requires to recover the GPU, at the last scrape of the hour; empty if unknown", func(g *GPU) *string { return &g.RecoveryAction }).addedIn(18),
	}
)

// IsLevel reports whether a column of ErrorFields contains the value of the last scrape. The other columns count the
// errors of one hour.
func IsLevel(name string) bool { return name == "lifetime_uncorrectable" || name == "low_memory_banks" }

// AddErrors adds the errors of a later hour. It adds up the counts of errors. Of all other numbers, it keeps the
// highest value. It keeps the last action. A number is unknown if both hours lack it.
func (g *GPU) AddErrors(later *GPU) {
	for _, f := range ErrorFields {
		if f.optional == nil {
			continue
		}
		sum, n := f.optional(g), *f.optional(later)
		switch {
		case n == nil:
		case *sum == nil:
			*sum = new(*n)
		case IsLevel(f.Name):
			*sum = new(max(**sum, *n))
		default:
			*sum = new(**sum + *n)
		}
	}
	g.RecoveryAction = cmp.Or(later.RecoveryAction, g.RecoveryAction)
}

// ClearErrors makes all errors unknown.
func (g *GPU) ClearErrors() {
	for _, f := range ErrorFields {
		if f.optional != nil {
			*f.optional(g) = nil
		}
	}
	g.RecoveryAction = ""
}

// PlaceFields contains the columns with the identity and the place of a GPU. GPUFields contains all columns.
var (
	PlaceFields = append([]Field[GPU]{
		text("cluster", clusterHelp, func(g *GPU) *string { return &g.Cluster }),
		moment("hour", hourHelp, func(g *GPU) *time.Time { return &g.Hour }),
	}, place...)
	GPUFields = slices.Concat(PlaceFields, health, ErrorFields)
)

// GPUField returns the column of GPUs with the given name. It returns false if there is no such column.
func GPUField(name string) (Field[GPU], bool) { return named(GPUFields, name) }

// GPUHours contains a row for each GPU and hour.
var GPUHours = build("gpu_hours", "one GPU in one hour: its place, the energy of its board, and its health", []string{"node", "uuid"},
	func(h *Hour) []GPU { return h.GPUs }, slices.Concat(place, health, ErrorFields)...)

// NodesIn returns the nodes in rows of gpu_hours, sorted.
func NodesIn(rows [][]any) (nodes []string) {
	for _, row := range rows {
		nodes = append(nodes, GPUHours.value(row, "node").(string))
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}
