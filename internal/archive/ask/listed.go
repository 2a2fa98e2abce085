package ask

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/factors"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// listed is a row about a board in one place.
type listed struct {
	name string // argument or entry of --names
	*Stay
	asset  factors.Asset
	state  string
	detail *detail
	errors *table.GPU
}

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

func (n named) unlisted() *listed {
	return &listed{n.name, &Stay{Start: unknownState, GPU: table.GPU{Serial: n.asset.Serial}}, n.asset, unknownState, new(detail), new(table.GPU)}
}

// has reports whether the name selects a stay. The name of a node or chassis does not select a board's stays elsewhere.
func (n named) has(s *Stay) bool {
	elsewhere := n.kind == "node" && s.Node != n.value || n.kind == "chassis" && s.ChassisSerial != n.value
	return !elsewhere && slices.Contains(n.uuids, s.UUID)
}

// The first column is shown in text only if the question contains several names.
var boardColumns = columns[*listed]{
	{"name", "", print.Text, func(l *listed) any { return l.name }},
	{"serial", "SERIAL", print.Text, func(l *listed) any { return l.Serial }},
	{"uuid", "", print.Text, func(l *listed) any { return l.UUID }},
}

var assetColumns = columns[*listed]{
	{"asset_tag", "ASSET", print.Text, func(l *listed) any { return l.asset.Tag }},
	{"warranty", "WARRANTY", print.Text, func(l *listed) any { return l.asset.Warranty }},
	{"model", "MODEL", print.Text, func(l *listed) any { return l.Model }},
	{"state", "STATE", print.Text, func(l *listed) any { return l.state }},
}

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

var errorsOfStay = append(columns[*listed]{
	{"lifetime_uncorrectable_before", "", print.Count, func(l *listed) any { return number(lifetimeBefore(l.errors)) }},
}, within(errorColumns, (*listed).counts)...)

func (l *listed) counts() *table.GPU { return l.errors }

func (l *listed) lastSeen() any { return l.Last }
