package collector

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/record"
)

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
		p.podNamespace(rows.Allocations[i].Node, rows.Allocations[i].Namespace)
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
	for i := range r.ECC {
		v := &r.ECC[i]
		p.counter(boardECCErrors, v.Value, time.Time{}, p.with(board, "memory", v.Labels[0], "error", v.Labels[1]))
	}
	for i := range r.RAS {
		v := &r.RAS[i]
		p.counter(boardRASErrors, v.Value, r.RASSince, p.with(board, "memory", v.Labels[0], "error", v.Labels[1]))
	}
	p.ownCounter(boardRetiredPages, r.RetiredPages, board)
	p.ownCounter(boardPCIeReplays, r.PCIeReplays, board)
	p.ownCounter(boardNVLinkErrors, r.NVLinkErrors, board)
	optional(p, boardLowBanks, r.LowBanks, board)
	if r.Recovery != "" {
		p.info(boardRecovery, p.with(board, "action", r.Recovery))
	}
	for cause, m := range throttledBoards {
		if t := r.Throttled[cause]; t != nil {
			p.counter(m, t.Seconds(), r.Opened, board)
		}
	}
}

var throttledBoards = [gpu.NumThrottles]metricID{gpu.ThrottleThermal: boardThermal, gpu.ThrottlePowerBrake: boardPowerBrake}

// ownCounter renders a counter that the GPU itself counts. The counter has no created timestamp,
// because the GPU does not report the time at which the counter was 0.
func (p *page) ownCounter(m metricID, v *float64, board *labelSet) {
	if v != nil {
		p.counter(m, *v, time.Time{}, board)
	}
}

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
	p.counter(boardUncounted, r.Uncounted.Joules(), r.Since, board)
	p.counter(boardEstimated, r.Estimated.Joules(), r.Since, board)
	p.moment(boardCreated, r.Since, board)
	if r.Source != gpu.EnergyNone {
		p.info(boardEnergySource, p.with(board, "source", string(r.Source), "scope", string(r.Scope)))
	}
}

type amountMetrics struct {
	energy, exclusive, idle, estimated, held, active, busy, gpuTime, created metricID
	throttledEnergy, throttledSeconds                                        metricID
	profiled                                                                 profiledMetrics
}

var (
	podAmounts = amountMetrics{
		energy: allocationEnergy, exclusive: allocationExclusive, idle: allocationIdle, estimated: allocationEstimated,
		held: allocationSeconds, active: allocationActive, busy: allocationBusy, gpuTime: allocationGPUTime, created: allocationCreated,
		throttledEnergy: allocationThrottledEnergy, throttledSeconds: allocationThrottledSeconds,
		profiled: profiledMetrics{allocationProfiled, allocationTensor, allocationDRAM},
	}
	unitAmounts = amountMetrics{
		energy: unitAllocationEnergy, exclusive: unitAllocationExclusive, idle: unitAllocationIdle, estimated: unitAllocationEstimated,
		held: unitAllocationSeconds, active: unitAllocationActive, busy: unitAllocationBusy, gpuTime: unitAllocationGPUTime, created: unitAllocationCreated,
		throttledEnergy: unitAllocationThrottledEnergy, throttledSeconds: unitAllocationThrottledSeconds,
		profiled: profiledMetrics{unitAllocationProfiled, unitAllocationTensor, unitAllocationDRAM},
	}
)

func (p *page) allocation(r *record.Allocation) {
	pod := p.labels(
		"node", r.Node, "UUID", r.UUID, "serial", r.Serial, "chassis_serial", r.ChassisSerial,
		"namespace", r.Namespace, "pod", r.Pod, "pod_uid", r.PodUID,
	)
	p.amounts(&r.Amounts, &podAmounts, pod)
	for _, u := range r.Units {
		if l := p.with(pod, "manager", u.Manager, "unit", u.Name); p.first(allocationUnitEnergy, l) {
			p.counter(allocationUnitEnergy, u.Energy.Joules(), u.Since, l)
		}
	}
}

func (p *page) podNamespace(node, namespace string) {
	if l := p.labels("node", node, "pod_namespace", namespace); p.first(podNamespace, l) {
		p.info(podNamespace, l)
	}
}

func (p *page) unitAllocation(r *record.UnitAllocation) {
	p.amounts(&r.Amounts, &unitAmounts, p.labels(
		"node", r.Node, "UUID", r.UUID, "serial", r.Serial, "chassis_serial", r.ChassisSerial, "manager", r.Manager, "unit", r.Name,
	))
}

func (p *page) amounts(r *record.Amounts, metrics *amountMetrics, key *labelSet) {
	if !p.first(metrics.energy, key) {
		return
	}
	p.counter(metrics.energy, r.Energy.Joules(), r.Since, key)
	p.counter(metrics.exclusive, r.Exclusive.Joules(), r.Since, key)
	p.counter(metrics.idle, r.Idle.Joules(), r.Since, key)
	p.counter(metrics.estimated, r.Estimated.Joules(), r.Since, key)
	p.counter(metrics.held, r.Held.Seconds(), r.Since, key)
	p.counter(metrics.active, r.Active.Seconds(), r.Since, key)
	p.counter(metrics.busy, r.Busy.Seconds(), r.Since, key)
	p.counter(metrics.gpuTime, r.GPUTime.Seconds(), r.Since, key)
	p.throttled(r.Throttled, r.Since, metrics.throttledEnergy, metrics.throttledSeconds, key)
	p.profiled(r.Profiled, r.Since, metrics.profiled, key)
	p.moment(metrics.created, r.Since, key)
}
