package collector

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/record"
)

// record renders the rows that are kept for years.
func (p *page) record(s *gpu.Snapshot) {
	rows := record.New(s)
	for i := range rows.Placements {
		p.placement(&rows.Placements[i])
	}
	for i := range rows.Health {
		p.boardHealth(&rows.Health[i])
	}
	for i := range rows.Boards {
		p.board(&rows.Boards[i])
	}
	for i := range rows.Allocations {
		p.allocation(&rows.Allocations[i])
	}
	for i := range rows.Units {
		p.unitAllocation(&rows.Units[i])
	}
}

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

// boardHealth renders the errors of a GPU.
func (p *page) boardHealth(r *record.Health) {
	board := p.labels("node", r.Node, "UUID", r.UUID, "serial", r.Serial)
	if !p.first(boardLosses, board) {
		return
	}
	p.counter(boardLosses, float64(r.Losses), r.Since, board)
	for _, code := range slices.Sorted(maps.Keys(r.XIDs)) {
		p.counter(boardXIDErrors, float64(r.XIDs[code]), r.Since, p.with(board, "xid", strconv.FormatUint(code, 10)))
	}
	if r.Rows != nil {
		p.counter(boardRemappedRows, float64(r.Rows.Correctable), time.Time{}, p.with(board, "error", "correctable"))
		p.counter(boardRemappedRows, float64(r.Rows.Uncorrectable), time.Time{}, p.with(board, "error", "uncorrectable"))
	}
}

// board renders the energy of a GPU.
func (p *page) board(r *record.Board) {
	board := p.labels("node", r.Node, "UUID", r.UUID, "serial", r.Serial)
	if !p.first(boardEnergy, board) {
		return
	}
	p.counter(boardEnergy, r.Energy.Joules(), r.Since, board)
	for reason, e := range r.Unattributed {
		p.counter(boardUnattributed, e.Joules(), r.Since, p.with(board, "reason", gpu.Reason(reason).String()))
	}
	p.counter(boardEnergyResets, float64(r.Resets), r.Since, board)
	p.moment(boardCreated, r.Since, board)
	if r.Source != gpu.EnergyNone {
		p.info(boardEnergySource, p.with(board, "source", string(r.Source), "scope", string(r.Scope)))
	}
}

// unitAllocation renders a unit's part of a GPU.
func (p *page) unitAllocation(r *record.UnitAllocation) {
	who := p.labels(
		"node", r.Node, "UUID", r.UUID, "serial", r.Serial, "chassis_serial", r.ChassisSerial, "manager", r.Manager, "unit", r.Name,
	)
	if p.first(unitAllocationEnergy, who) {
		p.amounts(&r.Amounts, who, unitAllocationEnergy)
	}
}

// allocation renders a pod's part of a GPU.
func (p *page) allocation(r *record.Allocation) {
	who := p.labels(
		"node", r.Node, "UUID", r.UUID, "serial", r.Serial, "chassis_serial", r.ChassisSerial,
		"namespace", r.Namespace, "pod", r.Pod, "pod_uid", r.PodUID,
	)
	if p.first(allocationEnergy, who) {
		p.amounts(&r.Amounts, who, allocationEnergy)
	}
}

// amounts renders the amounts of an allocation. The metrics of pods and of units have the same
// order.
func (p *page) amounts(r *record.Amounts, who *labelSet, first metricID) {
	p.counter(first, r.Energy.Joules(), r.Since, who)
	p.counter(first+allocationExclusive-allocationEnergy, r.Exclusive.Joules(), r.Since, who)
	p.counter(first+allocationIdle-allocationEnergy, r.Idle.Joules(), r.Since, who)
	p.counter(first+allocationSeconds-allocationEnergy, r.Held.Seconds(), r.Since, who)
	p.counter(first+allocationActive-allocationEnergy, r.Active.Seconds(), r.Since, who)
	p.counter(first+allocationGPUTime-allocationEnergy, r.GPUTime.Seconds(), r.Since, who)
	p.moment(first+allocationCreated-allocationEnergy, r.Since, who)
}
