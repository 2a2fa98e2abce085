// Package record defines the rows that archives keep for years: the place of each GPU, and the energy of the pods that
// used the GPU. Each row contains the serial number of the board, so that archives need no joins. The exporter serves
// the rows on /metrics/record.
package record

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Placement describes the place of a present GPU (gpuledger_placement_info). Unknown values are empty.
type Placement struct {
	Node, SystemUUID, UUID, Serial, ChassisSerial, PCIBusID, Model string
	ChassisSlot, TrayIndex                                         *int // nil if unknown
}

// Board contains the energy of a GPU since its book was opened (gpuledger_board_energy_joules_total).
type Board struct {
	Node, UUID, Serial string
	Energy             gpu.Millijoules
	// Unattributed is the part of Energy that is charged to no container, by reason
	// (gpuledger_board_unattributed_energy_joules_total).
	Unattributed [gpu.NumReasons]gpu.Millijoules
	// Resets is the number of resets of the energy counter (gpuledger_board_energy_resets_total).
	Resets uint64
	// Uncounted is an upper bound of the energy that Energy lacks
	// (gpuledger_board_uncounted_energy_bound_joules_total). Estimated is the part of Energy that was divided among
	// owners with an estimate of the idle power (gpuledger_board_estimated_energy_joules_total).
	Uncounted, Estimated gpu.Millijoules
	// Source and Scope describe the energy counter (gpuledger_board_energy_source_info).
	Source gpu.EnergySource
	Scope  gpu.EnergyScope
	// Since is the time at which the counters were 0. If the counters continue earlier counters with another serial
	// number, Since is zero.
	Since time.Time
}

// Health contains the errors and throttled times of a GPU in this boot.
type Health struct {
	Node, UUID, Serial string
	// XIDs contains the number of XID errors by code (gpuledger_board_xid_errors_total).
	XIDs map[uint64]uint64
	// Losses is the number of times that the driver lost the GPU (gpuledger_board_losses_total).
	Losses uint64
	// Rows contains the numbers of remapped memory rows (gpuledger_board_remapped_rows_total). It is nil if the GPU
	// does not report them.
	Rows *gpu.RowRemap
	// ECC contains the memory errors over the life of the board, by memory and kind
	// (gpuledger_board_ecc_errors_total).
	ECC []gpu.HealthValue
	// RAS contains the memory errors of an AMD GPU in this boot, by memory and kind
	// (gpuledger_board_ras_errors_total).
	RAS []gpu.HealthValue
	// RASSince is the time of the boot, when RAS was 0. RASSince is zero if a serial number has changed since.
	RASSince time.Time
	// RetiredPages is the number of retired memory pages (gpuledger_board_retired_pages_total). PCIeReplays is the
	// number of replays on the PCIe link (gpuledger_board_pcie_replays_total). NVLinkErrors is the number of NVLink
	// errors (gpuledger_board_nvlink_errors_total). LowBanks is the number of memory banks with few or no spare rows
	// (gpuledger_board_low_memory_banks). A number is nil if the GPU does not report it.
	RetiredPages, PCIeReplays, NVLinkErrors, LowBanks *float64
	// Recovery is the action from [gpu.Reading.Recovery] (gpuledger_board_recovery_action_info).
	Recovery string
	// Throttled contains the times for which the GPU was throttled, by reason
	// (gpuledger_board_thermal_throttled_seconds_total, gpuledger_board_power_brake_throttled_seconds_total). A time is
	// nil if the GPU does not report the reason.
	Throttled [gpu.NumThrottles]*time.Duration
	Since     time.Time // time at which the other counters were 0, as in Board
	// Opened is the time at which Throttled was 0. Opened is zero if a serial number has changed since.
	Opened time.Time
}

// Allocation contains the energy and times that are charged to a pod for the use of a GPU.
type Allocation struct {
	Node, UUID, Serial, ChassisSerial, Namespace, Pod, PodUID string
	Amounts
	Units []UnitPart
}

// UnitAllocation contains the energy and times that are charged to a unit outside pods for the use of a GPU. Its
// metrics begin with gpuledger_unit_allocation instead of gpuledger_allocation.
type UnitAllocation struct {
	Node, UUID, Serial, ChassisSerial string
	gpu.Unit
	Amounts
}

// UnitPart contains a part of the energy of a pod on a GPU. The processes of a unit in the pod, such as a Slurm job,
// used this part (gpuledger_allocation_unit_energy_joules_total).
type UnitPart struct {
	gpu.Unit
	Energy gpu.Millijoules
	Since  time.Time // time at which the counter was 0, as in Board
}

// Amounts contains the energy and times that are charged to an owner for the use of a GPU. All values are counters.
type Amounts struct {
	// Energy is the energy that is charged to the owner (gpuledger_allocation_energy_joules_total). The next three
	// values are parts of this energy. Exclusive was measured while no other owner held or used the GPU
	// (gpuledger_allocation_exclusive_energy_joules_total). Idle is idle energy
	// (gpuledger_allocation_idle_energy_joules_total). Estimated was divided among owners with an estimate of the idle
	// power (gpuledger_allocation_estimated_energy_joules_total).
	Energy, Exclusive, Idle, Estimated gpu.Millijoules
	// Held is the time for which the owner held the GPU (gpuledger_allocation_seconds_total). Active is the time for
	// which the owner worked on the GPU (gpuledger_allocation_active_seconds_total). Busy is the sampled busy time of
	// the owner (gpuledger_allocation_busy_seconds_total).
	Held, Active, Busy time.Duration
	// Throttled contains the energy that the owner used while the GPU was throttled
	// (gpuledger_allocation_throttled_joules_total), and the throttled time
	// (gpuledger_allocation_throttled_seconds_total).
	Throttled gpu.ByThrottle
	// GPUTime is Held, multiplied by the owner's share of the GPU (gpuledger_allocation_gpu_seconds_total).
	GPUTime time.Duration
	// Profiled is the work of the owner while the owner was alone on the GPU
	// (gpuledger_allocation_profiled_seconds_total, gpuledger_allocation_tensor_active_seconds_total,
	// gpuledger_allocation_dram_active_seconds_total).
	Profiled gpu.Profiled
	Since    time.Time // time at which the counters were 0, as in Board
}

// Rows contains the rows of one snapshot.
type Rows struct {
	Placements  []Placement
	Health      []Health
	Boards      []Board
	Allocations []Allocation
	Units       []UnitAllocation
}

// New returns the rows for a snapshot. A pod or unit has rows as long as it has accounts.
func New(s *gpu.Snapshot) (rows Rows) {
	for i := range s.GPUs {
		g := &s.GPUs[i]
		serial, chassis := gpu.Identity(g.Serial), gpu.Identity(g.Platform.ChassisSerial)
		if g.Present {
			rows.Placements = append(rows.Placements, Placement{
				Node: s.Node.Name, SystemUUID: gpu.Identity(s.Node.SystemUUID), UUID: g.UUID, Serial: serial, ChassisSerial: chassis,
				ChassisSlot: g.Platform.Slot, TrayIndex: g.Platform.Tray, PCIBusID: g.PCIBusID, Model: gpu.Identity(g.Model),
			})
		}
		rows.Health = append(rows.Health, health(s.Node.Name, serial, g))
		if g.Book == nil {
			continue
		}
		rows.Boards = append(rows.Boards, Board{
			Node: s.Node.Name, UUID: g.UUID, Serial: serial, Energy: g.Book.Energy, Unattributed: g.Book.Unattributed, Resets: g.Book.Resets,
			Uncounted: g.Book.Uncounted, Estimated: g.Book.Estimated, Source: g.EnergySource, Scope: g.EnergyScope, Since: began(g, g.Book.Opened),
		})
		for _, a := range g.Book.Groups() {
			amounts := Amounts{
				Energy: a.Energy, Exclusive: a.Exclusive, Idle: a.Idle, Estimated: a.Estimated,
				Held: a.Allocated, Active: a.Active, Busy: a.Busy, GPUTime: a.GPUTime, Throttled: a.Throttled, Profiled: a.Profiled, Since: began(g, a.Opened),
			}
			switch {
			case a.Kind == gpu.OwnerPod && a.Known():
				rows.Allocations = append(rows.Allocations, Allocation{
					Node: s.Node.Name, UUID: g.UUID, Serial: serial, ChassisSerial: chassis, Namespace: a.Scope, Pod: a.Name, PodUID: a.UID,
					Amounts: amounts, Units: unitParts(g, a.Units),
				})
			case a.Kind == gpu.OwnerUnit:
				rows.Units = append(rows.Units, UnitAllocation{
					Node: s.Node.Name, UUID: g.UUID, Serial: serial, ChassisSerial: chassis, Unit: a.Unit(), Amounts: amounts,
				})
			}
		}
	}
	return rows
}

func unitParts(g *gpu.GPU, units []gpu.UnitAccount) (parts []UnitPart) {
	for _, u := range units {
		parts = append(parts, UnitPart{Unit: u.Unit, Energy: u.Energy, Since: began(g, u.Opened)})
	}
	return parts
}

func health(node, serial string, g *gpu.GPU) Health {
	h := Health{Node: node, UUID: g.UUID, Serial: serial, XIDs: g.Events.ByCode, Losses: g.Events.Losses, Since: began(g, g.Events.Since)}
	r := g.Reading
	if !g.Present || r == nil {
		return h
	}
	h.Rows, h.Recovery = r.RowRemap, r.Recovery
	for i := range r.Health {
		if r.Health[i].Metric == gpu.ECCLifetimeErrors {
			h.ECC = append(h.ECC, r.Health[i])
		}
	}
	for i := range g.Totals {
		if g.Totals[i].Metric == gpu.ECCErrors {
			h.RAS = append(h.RAS, g.Totals[i])
		}
	}
	h.RASSince = began(g, g.TotalsSince)
	h.RetiredPages = sum(r.Health, gpu.RetiredPages, retired(g)...)
	h.PCIeReplays = sum(r.Health, gpu.PCIeErrors, "replay")
	h.LowBanks = sum(r.Health, gpu.MemoryBanks, "low", "none")
	for _, types := range linkErrors {
		if h.NVLinkErrors == nil {
			h.NVLinkErrors = sum(r.Health, gpu.NVLinkErrors, types...)
		}
	}
	if r.Throttled != nil && g.Book != nil {
		h.Opened = began(g, g.Book.Opened)
		for cause, part := range g.Book.Throttled {
			if g.Vendor != amd || gpu.Throttle(cause) == gpu.ThrottleThermal {
				h.Throttled[cause] = new(part.Time)
			}
		}
	}
	return h
}

// GPUs of this vendor report thermal throttling, but no power brake.
const amd = "AMD"

// AMD's driver retires pages for uncorrectable errors only (Linux, amdgpu_ras.c).
func retired(g *gpu.GPU) []string {
	if g.Vendor == amd {
		return []string{"uncorrectable"}
	}
	return []string{"correctable", "uncorrectable"}
}

// linkErrors contains the counted types of NVLink errors. The first list is for NVLink 4 and older. The second list is
// for NVLink 5 and newer. Other types, such as corrected symbols, also occur on healthy links.
var linkErrors = [][]string{
	{"crc_flit", "crc_data", "replay", "recovery"},
	{"link_integrity", "receive", "recovery", "recovery_failed"},
}

// If one of the values is missing, sum returns nil. A sum without this value would look like a counter that fell.
func sum(values []gpu.HealthValue, m gpu.HealthMetric, labels ...string) *float64 {
	total, found := 0.0, 0
	for i := range values {
		if v := &values[i]; v.Metric == m && slices.Contains(labels, v.Labels[0]) {
			total, found = total+v.Value, found+1
		}
	}
	if found < len(labels) {
		return nil
	}
	return &total
}

// began returns the time at which a counter of a GPU was 0. If a serial number has changed since, the counter continues
// an earlier counter with another label value, and began returns zero. Otherwise the energy of the earlier counter
// would count twice.
func began(g *gpu.GPU, opened time.Time) time.Time {
	if g.Renamed.After(opened) {
		return time.Time{}
	}
	return opened
}
