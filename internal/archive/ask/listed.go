package ask

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/factors"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// listed is a row about one stay of a board.
type listed struct {
	name string // name in the question
	*Stay
	asset  factors.Asset
	state  string
	detail *detail
	errors *table.GPU
}

// listed returns the boards that have one of the given names. all contains stays; a board is returned once
// for each of its names and stays.
func (q *question) listed(names []named, all []*Stay, until time.Time) (boards []*listed) {
	for _, n := range names {
		if n.unknown != nil {
			boards = append(boards, n.unlisted())
			continue
		}
		for _, s := range all {
			if n.has(s) {
				boards = append(boards, &listed{n.name, s, q.assets.Of(s.Serial), state(s, until), new(detail), &s.GPU})
			}
		}
	}
	return boards
}

// unlisted returns the row for a name that the books do not contain.
func (n named) unlisted() *listed {
	return &listed{n.name, &Stay{Start: unknownState, GPU: table.GPU{Serial: n.asset.Serial}}, n.asset, unknownState, new(detail), new(table.GPU)}
}

// has reports whether a stay belongs to this name. For a node or chassis, the stay must be in this node or chassis.
func (n named) has(s *Stay) bool {
	elsewhere := n.kind == "node" && s.Node != n.value || n.kind == "chassis" && s.ChassisSerial != n.value
	return !elsewhere && slices.Contains(n.uuids, s.UUID)
}

// boardColumns contains columns that identify a board. The first column is part of the text only if the question
// contains several names.
var boardColumns = columns[*listed]{
	{"name", "", print.Text, func(l *listed) any { return l.name }},
	{"serial", "SERIAL", print.Text, func(l *listed) any { return l.Serial }},
	{"uuid", "", print.Text, func(l *listed) any { return l.UUID }},
}

// assetColumns contains the columns from the list of assets.
var assetColumns = columns[*listed]{
	{"asset_tag", "ASSET", print.Text, func(l *listed) any { return l.asset.Tag }},
	{"warranty", "WARRANTY", print.Text, func(l *listed) any { return l.asset.Warranty }},
	{"model", "MODEL", print.Text, func(l *listed) any { return l.Model }},
	{"state", "STATE", print.Text, func(l *listed) any { return l.state }},
}

// placeColumns contains the columns that describe a place.
var placeColumns = columns[*listed]{
	{"cluster", "CLUSTER", print.Text, func(l *listed) any { return l.Cluster }},
	{"node", "NODE", print.Text, func(l *listed) any { return l.Node }},
	{"machine", "", print.Text, func(l *listed) any { return l.Machine }},
	{"system_uuid", "", print.Text, func(l *listed) any { return l.SystemUUID }},
	{"chassis_serial", "CHASSIS", print.Text, func(l *listed) any { return l.ChassisSerial }},
	{"chassis_slot", "SLOT", print.Text, func(l *listed) any { return l.ChassisSlot }},
	{"tray_index", "TRAY", print.Text, func(l *listed) any { return l.TrayIndex }},
	{"pci_bus_id", "PCI", print.Text, func(l *listed) any { return l.PCIBusID }},
}

// errorsOfStay contains the columns for the errors before and during a stay.
var errorsOfStay = append(columns[*listed]{
	{"lifetime_uncorrectable_before", "", print.Count, func(l *listed) any { return number(lifetimeBefore(l.errors)) }},
}, within(errorColumns, (*listed).counts)...)

func (l *listed) counts() *table.GPU { return l.errors }

func (l *listed) lastSeen() any { return l.Last }
