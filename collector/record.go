package collector

import (
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/record"
)

// record renders the rows that are kept for years.
func (p *page) record(s *gpu.Snapshot) {
	rows := record.New(s)
	for i := range rows.Placements {
		p.placement(&rows.Placements[i])
	}
	for i := range rows.Boards {
		b := &rows.Boards[i]
		if p.first(boardEnergy, p.labels("UUID", b.UUID)) {
			p.counter(boardEnergy, b.Energy.Joules(), b.Since, p.labels("node", b.Node, "UUID", b.UUID, "serial", b.Serial))
		}
	}
	for i := range rows.Allocations {
		p.allocation(&rows.Allocations[i])
	}
}

// placement renders where a GPU sits.
func (p *page) placement(r *record.Placement) {
	if !p.first(placement, p.labels("UUID", r.UUID)) {
		return
	}
	p.info(placement, p.labels(
		"node", r.Node,
		"system_uuid", r.SystemUUID,
		"UUID", r.UUID,
		"serial", r.Serial,
		"chassis_serial", r.ChassisSerial,
		"chassis_slot", decimal(r.ChassisSlot),
		"tray_index", decimal(r.TrayIndex),
		"pci_bus_id", r.PCIBusID,
		"model", r.Model,
	))
}

// allocation renders a pod's part of a GPU.
func (p *page) allocation(r *record.Allocation) {
	who := p.labels(
		"node", r.Node, "UUID", r.UUID, "serial", r.Serial, "chassis_serial", r.ChassisSerial,
		"namespace", r.Namespace, "pod", r.Pod, "pod_uid", r.PodUID,
	)
	if p.first(allocationEnergy, who) {
		p.counter(allocationEnergy, r.Energy.Joules(), r.Since, who)
		p.counter(allocationSeconds, r.Held.Seconds(), r.Since, who)
	}
}
