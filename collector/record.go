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
		board := p.labels(s.Node.Name, g.UUID, gpu.Identity(g.Serial))
		if !p.first(boardEnergy, p.labels(g.UUID)) {
			continue
		}
		if g.Present {
			p.placement(&s.Node, g)
		}
		if g.Book != nil {
			p.counter(boardEnergy, g.Book.Energy.Joules(), began(g, g.Book.Opened), board)
			p.allocations(g, p.and(board, gpu.Identity(g.Platform.ChassisSerial)))
		}
	}
}

// placement renders where a GPU sits.
func (p *page) placement(n *gpu.Node, g *gpu.GPU) {
	p.info(placement, p.labels(
		n.Name,
		gpu.Identity(n.SystemUUID),
		g.UUID,
		gpu.Identity(g.Serial),
		gpu.Identity(g.Platform.ChassisSerial),
		decimal(g.Platform.Slot),
		decimal(g.Platform.Tray),
		g.PCIBusID,
		gpu.Identity(g.Model),
	))
}

// allocations renders which pods had a GPU. Their series are there for as long as the
// pods have accounts.
func (p *page) allocations(g *gpu.GPU, board *labelSet) {
	for _, a := range g.Book.Groups() {
		if a.Kind != gpu.OwnerPod || !a.Known() {
			continue
		}
		who := p.and(board, a.Scope, a.Name, a.UID)
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
