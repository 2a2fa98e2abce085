package simnode

import "time"

// The machine has four H100. One pod trains on all of them with equal loads.
func trainer(name string) Scenario {
	sc := hgxH100(name, 4)
	pod := Pod{Namespace: "research", Name: "pretrain-0", Containers: []Container{{Name: "trainer", Devices: GPUs(0, 1, 2, 3)}}}
	for g := range sc.GPUs {
		pod.Containers[0].Processes = append(pod.Containers[0].Processes,
			Process{Comm: "python3", Work: []Work{{GPU: g, Watts: 560, Load: Constant(97), Memory: 70 * gib}}})
	}
	sc.Pods = []Pod{devicePlugin(), pod}
	return sc
}

// The XID errors follow NVIDIA's catalogue: 74 is an NVLink error, 48 is an uncorrectable memory error, 63 is a
// recorded row remap, 94 is a contained error, and 154 is a changed recovery action.
func sick() Scenario {
	sc := trainer("sick")
	sc.Description = "4 H100; a board has memory and NVLink errors, fewer spare rows after 4 min, uncorrectable errors after 6 min, and is lost after 22 min"
	const minute = time.Minute
	from := func(t time.Duration) Span { return Span{From: t} }
	sc.GPUs[1].Defects = []Defect{
		{DRAMCorrectable, from(10 * time.Second), 10 * time.Second, 1},
		{RowsCorrectable, from(minute), 0, 1},
		{BanksMax, from(minute), 0, -1},
		{BanksHigh, from(minute), 0, 1},
		{LinkCRCErrors, from(minute), time.Second, 3},
		{LinkReplays, from(2 * minute), 20 * time.Second, 1},
		{RowsCorrectable, from(150 * time.Second), 0, 1},
		{BanksHigh, from(150 * time.Second), 0, -1},
		{BanksPartial, from(150 * time.Second), 0, 1},
		{RowsCorrectable, from(4 * minute), 0, 1},
		{BanksPartial, from(4 * minute), 0, -1},
		{BanksLow, from(4 * minute), 0, 1},
		{DRAMUncorrectable, from(6 * minute), 5 * minute, 1},
		{RowsUncorrectable, from(6 * minute), 0, 1},
		{RowPending, from(6 * minute), 0, 1},
		{RecoveryAction, from(6 * minute), 0, 1},
		{LinksInactive, from(8 * minute), 0, 2},
		{LinkRecoveries, from(8 * minute), minute, 1},
		{SRAMUncorrectable, from(15 * minute), 0, 1},
	}
	xid := func(at time.Duration, code int) Event { return Event{At: at, Do: ReportXID, GPU: 1, XID: code} }
	sc.Events = []Event{
		xid(2*minute, 74), xid(6*minute, 48), xid(6*minute, 63), xid(6*minute, 154), xid(15*minute, 94),
		{At: 22 * minute, Do: FallOff, GPU: 1},
	}
	return sc
}

func throttled() Scenario {
	sc := trainer("throttled")
	sc.Description = "4 H100 under the same load; from 1 to 17 min one is too hot, and the power brake slows another down"
	slow := Span{From: time.Minute, Until: 17 * time.Minute}
	sc.GPUs[2].Defects = append(during(slow, ClockReduction, 900), append(during(slow, Heat, 22), Defect{HardwareThermal, slow, step, int64(step) * 9 / 10})...)
	sc.GPUs[3].Defects = append(during(slow, ClockReduction, 800), Defect{PowerBrake, slow, step, int64(step) * 7 / 10})
	return sc
}

// during returns two defects. The first defect adds by to a condition at the start of a span. The second subtracts by
// at the end.
func during(span Span, c Condition, by int64) []Defect {
	return []Defect{{Condition: c, Span: Span{From: span.From}, By: by}, {Condition: c, Span: Span{From: span.Until}, By: -by}}
}
