package collector

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// record renders what is kept for years: where each GPU sits, and which pod had it
// for how many joules. Each series names the board's serial number itself.
func (p *page) record(s *gpu.Snapshot) {
	for i := range s.GPUs {
		g := &s.GPUs[i]
		board := p.labels("node", s.Node.Name, "UUID", g.UUID, "serial", gpu.Identity(g.Serial))
		if !p.first(boardEnergy, p.labels("UUID", g.UUID)) {
			continue
		}
		if g.Present {
			p.placement(&s.Node, g)
		}
		if g.Book != nil {
			p.counter(boardEnergy, g.Book.Energy.Joules(), began(g, g.Book.Opened), board)
			p.allocations(g, p.and(board, "chassis_serial", gpu.Identity(g.Platform.ChassisSerial)))
		}
	}
}

// placement renders where a GPU sits.
func (p *page) placement(n *gpu.Node, g *gpu.GPU) {
	p.info(placement, p.labels(
		"node", n.Name,
		"system_uuid", gpu.Identity(n.SystemUUID),
		"UUID", g.UUID,
		"serial", gpu.Identity(g.Serial),
		"chassis_serial", gpu.Identity(g.Platform.ChassisSerial),
		"chassis_slot", decimal(g.Platform.Slot),
		"tray_index", decimal(g.Platform.Tray),
		"pci_bus_id", g.PCIBusID,
		"model", gpu.Identity(g.Model),
	))
}

// allocations renders which pods had a GPU. Their series are there for as long as the
// pods have accounts.
func (p *page) allocations(g *gpu.GPU, board *labelSet) {
	for _, a := range g.Book.Groups() {
		if a.Kind != gpu.OwnerPod || !a.Known() {
			continue
		}
		who := p.and(board, "namespace", a.Scope, "pod", a.Name, "pod_uid", a.UID)
		if !p.first(allocationEnergy, who) {
			continue
		}
		since := began(g, a.Opened)
		p.counter(allocationEnergy, a.Energy.Joules(), since, who)
		p.counter(allocationSeconds, a.Allocated.Seconds(), since, who)
	}
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
