// Package record has the rows of the record that is kept for years: where each GPU sits, and
// which pod had it for how many joules. Each row names the board itself, so an archive needs
// no joins. The exporter shows them on /metrics/record.
package record

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Placement is a GPU that is present, and where it sits (gpuledger_placement_info). Unknown
// values are empty.
type Placement struct {
	Node, SystemUUID, UUID, Serial, ChassisSerial, PCIBusID, Model string
	ChassisSlot, TrayIndex                                         *int // nil if unknown
}

// Board is the energy of a GPU since its book was opened (gpuledger_board_energy_joules_total).
type Board struct {
	Node, UUID, Serial string
	Energy             gpu.Millijoules
	// Since is when the counter began at 0, zero if it took over the amount of another one.
	Since time.Time
}

// Allocation is a pod's part of a GPU: its energy (gpuledger_allocation_energy_joules_total)
// and the time that it held it (gpuledger_allocation_seconds_total).
type Allocation struct {
	Node, UUID, Serial, ChassisSerial, Namespace, Pod, PodUID string
	Energy                                                    gpu.Millijoules
	Held                                                      time.Duration
	Since                                                     time.Time // as in Board
}

// Rows are the rows of one moment.
type Rows struct {
	Placements  []Placement
	Boards      []Board
	Allocations []Allocation
}

// New returns the rows of a snapshot. Allocations are there for as long as the pods have
// accounts.
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
		if g.Book == nil {
			continue
		}
		rows.Boards = append(rows.Boards, Board{
			Node: s.Node.Name, UUID: g.UUID, Serial: serial, Energy: g.Book.Energy, Since: began(g, g.Book.Opened),
		})
		for _, a := range g.Book.Groups() {
			if a.Kind == gpu.OwnerPod && a.Known() {
				rows.Allocations = append(rows.Allocations, Allocation{
					Node: s.Node.Name, UUID: g.UUID, Serial: serial, ChassisSerial: chassis, Namespace: a.Scope, Pod: a.Name, PodUID: a.UID,
					Energy: a.Energy, Held: a.Allocated, Since: began(g, a.Opened),
				})
			}
		}
	}
	return rows
}

// began returns when a counter began that is labelled with a GPU's serial numbers. It
// is not known of one that took over the amount of another, under an older label:
// taken as its start, it would count that amount twice.
func began(g *gpu.GPU, opened time.Time) time.Time {
	if g.Renamed.After(opened) {
		return time.Time{}
	}
	return opened
}
