package status

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

const (
	maxTimes = 120
	// maxCauses is the number of causes above which causes of one kind are combined, even if their shares differ.
	maxCauses = 8
)

// Explain explains the energy charged to an owner. The returned errors contain suggestions.
func Explain(s *gpu.Snapshot, q Query) (*Explanation, error) {
	g, err := q.findGPU(s)
	if err != nil {
		return nil, err
	}
	name, owns, err := q.findOwner(g)
	if err != nil {
		return nil, err
	}
	since := g.Book.Settled.Boot - q.Since
	e := &Explanation{
		Version: Version, Time: s.At.Wall.UTC(), Node: shown(s.Node.Name), GPU: newBoard(g), Owner: name,
		Since: g.Book.Settled.Wall.Add(-q.Since).UTC(), Unattributed: make(map[string]gpu.Millijoules), Estimated: make(map[string]gpu.Millijoules),
		asked: Query{GPU: g.UUID, Owner: q.Owner, Since: q.Since},
	}
	step, from := steps(g, since), time.Duration(0)
	for iv := range g.Intervals {
		if iv.To.Boot <= since {
			continue
		}
		if n := len(e.Times); n == 0 || iv.To.Boot > from+step {
			e.Times, from = append(e.Times, ExplainedTime{From: iv.From.Wall}), iv.From.Boot
		}
		e.add(&iv, owns)
	}
	for i := range e.Times {
		e.Times[i].finish()
	}
	if e.Total.finish(); len(e.Times) > 0 {
		e.From, e.To = e.Total.From, e.Total.To
	}
	return e, nil
}

func newBoard(g *gpu.GPU) Board {
	b := Board{UUID: shown(g.UUID), Model: identity(g.Model), Serial: identity(g.Serial), PCIBusID: shown(g.PCIBusID)}
	if g.Present {
		b.Index = &g.Index
	}
	return b
}

// steps returns the maximum time that one row covers. It tries several lengths and returns the shortest length with at
// most maxTimes rows. The length 0 means one row for each interval.
func steps(g *gpu.GPU, since time.Duration) time.Duration {
	for _, step := range []time.Duration{0, time.Minute, 10 * time.Minute} {
		if rows(g, since, step) <= maxTimes {
			return step
		}
	}
	step := time.Hour
	for rows(g, since, step) > maxTimes {
		step *= 2
	}
	return step
}

// rows returns the number of rows if each row covers at most the time step. An interval that is longer than step has
// its own row.
func rows(g *gpu.GPU, since, step time.Duration) (n int) {
	var from time.Duration
	for iv := range g.Intervals {
		if iv.To.Boot > since && (n == 0 || iv.To.Boot > from+step) {
			n, from = n+1, iv.From.Boot
		}
	}
	return n
}

func (e *Explanation) add(iv *gpu.Interval, owns func(gpu.Owner) bool) {
	row := ExplainedTime{From: iv.From.Wall, To: iv.To.Wall, Intervals: 1, Energy: iv.Energy, BusySource: iv.BusySource.String()}
	if iv.BusySource != gpu.BusyUnknown {
		row.known = iv.To.Sub(iv.From)
		row.busy = time.Duration(iv.Busy * float64(row.known))
		row.IdlePower, row.IdlePowerSource = new(float64(iv.IdlePower.Power)), iv.IdlePower.Source.String()
	}
	sum := gpu.Millijoules(0)
	for i := range iv.Parts {
		p := newPart(iv, &iv.Parts[i], owns)
		e.addPart(&row, p)
	}
	for _, c := range iv.Charges {
		if c.Kind.HasAccount() {
			sum += c.Energy.Sum()
		}
	}
	own := row.Charged.Sum()
	e.Others += sum - own
	for r, amount := range iv.Unattributed {
		if amount != 0 {
			e.Unattributed[gpu.Reason(r).String()] += amount
		}
	}
	divided := own - row.Charged.Exclusive
	switch {
	case iv.BusySource == gpu.BusyUnknown:
		e.Unsampled += divided
	case divided > 0 && !iv.IdlePower.Measured() && !iv.AtRest:
		e.Estimated[iv.IdlePower.Source.String()] += divided
	}
	if iv.Late {
		e.Late += own
	}
	e.Times[len(e.Times)-1].plus(&row)
	e.Total.plus(&row)
}

func (e *Explanation) addPart(row *ExplainedTime, p part) {
	if len(p.own) == 0 {
		return
	}
	row.Idle, row.Busy = row.Idle+p.Idle, row.Busy+p.Busy
	row.AllActivity += p.activity.Seconds()
	var idle, shared, exclusive, rest, vanished gpu.Millijoules
	var holding float64
	var activity, served time.Duration
	for _, c := range p.own {
		row.Charged.add(c.Energy)
		row.OwnIdle += c.Idle
		holding += c.Holding
		activity, served = activity+c.Activity, served+c.Served
		switch {
		case c.Vanished:
			vanished += c.Energy.Sum()
		case c.Energy[gpu.Exclusive] > 0:
			exclusive += c.Energy.Sum()
		default:
			idle, shared = idle+c.Idle, shared+c.Energy[gpu.Shared]
			rest += c.Energy[gpu.Allocated] - c.Idle
		}
	}
	row.Activity += activity.Seconds()
	byActivity, byService := gpu.Millijoules(0), gpu.Millijoules(0)
	for _, c := range p.charges {
		byActivity += c.Energy[gpu.Shared]
		if c.Served > 0 {
			byService += c.Energy[gpu.Allocated] - c.Idle
		}
	}
	all := Cause{Seconds: p.seconds}
	e.cause(all.of(CauseSole, p.Idle+p.Busy, exclusive))
	e.cause(all.shared(holding, p.holding, p.Held).of(CauseIdle, p.Idle, idle))
	if p.unnamed {
		e.cause(all.of(CauseRecent, byActivity, shared))
	} else {
		e.cause(all.shared((activity-served).Seconds(), (p.activity-p.served).Seconds(), false).of(CauseActivity, byActivity, shared))
	}
	if served > 0 {
		e.cause(all.of(CauseService, byService, rest))
	} else {
		e.cause(all.shared(holding, p.holding, p.Held).of(CauseHolding, p.Busy, rest))
	}
	e.cause(all.of(CauseVanished, vanished, vanished))
}

type part struct {
	*gpu.IntervalPart
	seconds          float64
	charges, own     []gpu.Charge
	holding          float64
	activity, served time.Duration
	unnamed          bool // set if no sample names a process that worked
}

func newPart(iv *gpu.Interval, of *gpu.IntervalPart, owns func(gpu.Owner) bool) part {
	p := part{IntervalPart: of, unnamed: iv.BusySource == gpu.BusyUtilization}
	if !iv.Late { // other intervals already contain the time of a late interval
		p.seconds = iv.To.Sub(iv.From).Seconds()
	}
	for _, c := range iv.Charges {
		if c.GPUInstance != of.Instance {
			continue
		}
		p.charges = append(p.charges, c)
		p.holding += c.Holding
		p.activity, p.served = p.activity+c.Activity, p.served+c.Served
		if c.Kind.HasAccount() && owns(c.Owner) {
			p.own = append(p.own, c)
		}
	}
	return p
}

func (c Cause) of(kind CauseKind, divided, charged gpu.Millijoules) Cause {
	c.Kind, c.Divided, c.Charged = kind, divided, charged
	return c
}

func (c Cause) shared(own, all float64, held bool) Cause {
	c.Own, c.All, c.Held = own, all, held
	return c
}

// cause adds a cause to the explanation. It merges causes of the same kind, except causes by allocation with different
// shares.
func (e *Explanation) cause(c Cause) {
	if c.Charged == 0 {
		return
	}
	i := slices.IndexFunc(e.Causes, func(d Cause) bool {
		byHolding := c.Kind == CauseIdle || c.Kind == CauseHolding
		return d.Kind == c.Kind && (!byHolding || d.Own == c.Own && d.All == c.All && d.Held == c.Held)
	})
	if i < 0 && len(e.Causes) >= maxCauses {
		if i = slices.IndexFunc(e.Causes, func(d Cause) bool { return d.Kind == c.Kind }); i >= 0 {
			e.Causes[i].Own, e.Causes[i].All = 0, 0
		}
	}
	if i < 0 {
		e.Causes = append(e.Causes, c)
		return
	}
	d := &e.Causes[i]
	if c.Kind == CauseActivity {
		d.Own, d.All = d.Own+c.Own, d.All+c.All
	}
	d.Seconds += c.Seconds
	d.Divided += c.Divided
	d.Charged += c.Charged
}

func (t *ExplainedTime) plus(u *ExplainedTime) {
	if t.Intervals == 0 {
		t.From, t.BusySource = u.From, u.BusySource
	}
	if u.From.Before(t.From) {
		t.From = u.From
	}
	if t.BusySource != u.BusySource {
		t.BusySource = "mixed"
	}
	t.To = u.To
	t.Intervals += u.Intervals
	t.Energy += u.Energy
	t.Idle, t.Busy = t.Idle+u.Idle, t.Busy+u.Busy
	if u.IdlePower != nil {
		t.IdlePower, t.IdlePowerSource = u.IdlePower, u.IdlePowerSource
	}
	t.Activity, t.AllActivity = t.Activity+u.Activity, t.AllActivity+u.AllActivity
	t.Charged.Exclusive += u.Charged.Exclusive
	t.Charged.Shared += u.Charged.Shared
	t.Charged.Allocated += u.Charged.Allocated
	t.OwnIdle += u.OwnIdle
	t.known, t.busy = t.known+u.known, t.busy+u.busy
}

func (t *ExplainedTime) finish() {
	if t.known > 0 {
		t.BusyShare = new(float64(t.busy) / float64(t.known))
	}
}
