package ledger

import "github.com/gpuledger/gpuledger/internal/gpu"

// begin stores the book's unattributed energy before the interval. [trail.end] replaces it by the increase in the
// interval.
func (t *trail) begin(iv *interval, before [gpu.NumReasons]gpu.Millijoules) {
	if t == nil {
		return
	}
	parts, charges := t.now.Parts[:0], t.now.Charges[:0]
	t.now = gpu.Interval{
		From: iv.from.At, To: iv.to.At, Energy: iv.energy, Late: iv.timeless, Gap: iv.gap,
		Listed: iv.listed, Allocated: iv.holdersKnown,
		Parts: parts, Charges: charges, Unattributed: before,
	}
}

func (t *trail) price(iv *interval, l load, atRest bool, power gpu.IdlePower) {
	if t == nil || !l.known {
		return
	}
	t.now.Busy, t.now.BusySource = l.busy, iv.busySource()
	t.now.IdlePower, t.now.AtRest = power, atRest
}

// busySource is valid only if the busy share is known.
func (iv *interval) busySource() gpu.BusySource {
	switch {
	case iv.mig != nil:
		return gpu.BusyInstances
	case iv.signal && !iv.unnamed():
		return gpu.BusyProcesses
	}
	return gpu.BusyUtilization
}

// part must be called before the charges of the part are recorded.
func (t *trail) part(p *part) {
	if t == nil {
		return
	}
	for _, w := range p.holding {
		w.holding = w.weight
	}
	t.now.Parts = append(t.now.Parts, gpu.IntervalPart{
		Instance: p.instance, Slices: int(p.slices), Active: p.active, Idle: p.idle, Busy: p.busy, Held: len(p.holders) > 0,
	})
}

// [trail.vanished] records the energy of vanished processes when it is charged to the holders.
func (t *trail) charge(p *part, s *share) {
	if t == nil || s.vanished {
		return
	}
	c := gpu.Charge{
		AccountKey: p.key(s.owner), Holding: float64(s.holding),
		Activity: s.activity, Served: s.served, Energy: s.energy, Idle: s.idle,
	}
	if len(p.holders) > 0 {
		c.Holding /= divisible
	}
	t.now.Charges = append(t.now.Charges, c)
}

func (t *trail) vanished(key gpu.AccountKey, amount gpu.Millijoules) {
	if t == nil {
		return
	}
	t.now.Charges = append(t.now.Charges, gpu.Charge{
		AccountKey: key, Energy: gpu.ByMethod{gpu.Allocated: amount}, Vanished: true,
	})
}

func (t *trail) end(after [gpu.NumReasons]gpu.Millijoules) {
	if t == nil {
		return
	}
	for r := range after {
		t.now.Unattributed[r] = after[r] - t.now.Unattributed[r]
	}
	t.add(&t.now)
}
