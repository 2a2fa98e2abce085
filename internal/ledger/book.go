package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A book is the account book of one GPU. Accepted readings form a chain; each
// two neighbours bound one interval, and the intervals are settled in order.
type book struct {
	gpu.Book
	// last is the newest accepted reading, nil before the first.
	last *Reading
	// pending are the intervals not settled yet, oldest first.
	pending []interval
	// since gathers what was seen after last.
	since sighting
	// suspect is a reading that is not plausible after last. The next one
	// decides whether it was a glitch or the counter really starts anew.
	suspect *Reading
	// restored marks a book whose last reading was made by an earlier exporter.
	restored bool
	// seen is the boot clock of the newest observation.
	seen time.Duration
}

// Reading is one accepted reading of the board's counter, with who was on the
// GPU at that moment.
type Reading struct {
	At        gpu.Instant      `json:"at"`
	Energy    gpu.Millijoules  `json:"energy"`
	Processes []gpu.ProcessID  `json:"processes,omitempty"` // sorted
	Holders   []gpu.Allocation `json:"holders,omitempty"`
}

// An interval lies between two accepted readings and has one fate.
type interval struct {
	from, to Reading
	energy   gpu.Millijoules
	sighting
	// gap is set if nobody was looking in between.
	gap bool
}

// A sighting is what was seen on a GPU over some time.
type sighting struct {
	processes map[gpu.ProcessID]gpu.Process
	activity  map[gpu.ProcessID]uint64
	// signal is set if the driver told activity at every look.
	signal bool
	// busy is set if the GPU was seen to work, measured if that could be told.
	busy, measured bool
	// holders and holdersKnown are the kubelet's word at the last look.
	holders      []gpu.Allocation
	holdersKnown bool
}

func newBook() *book { return &book{since: newSighting(nil)} }

// newSighting begins with the processes that were there at its start.
func newSighting(processes map[gpu.ProcessID]gpu.Process) sighting {
	return sighting{
		processes: processes,
		activity:  make(map[gpu.ProcessID]uint64),
		signal:    true,
		measured:  true,
	}
}

// open reports whether counting has begun.
func (b *book) open() bool { return b.last != nil }

// base returns the reading up to which the book is settled.
func (b *book) base() Reading {
	if len(b.pending) > 0 {
		return b.pending[0].from
	}
	return *b.last
}

func (b *book) observe(o Observation, gapAfter time.Duration) {
	if b.last != nil && o.At.Boot <= max(b.last.At.Boot, b.seen) {
		return
	}
	b.seen = o.At.Boot
	present := b.present(o)
	b.since.add(o, present)
	if b.open() {
		b.openHolders(o)
	}
	if o.Energy == nil {
		return
	}
	r := Reading{At: o.At, Energy: *o.Energy, Processes: present, Holders: b.since.holders}
	b.accept(r, o.MaxPower, gapAfter)
}

// present returns the processes on the GPU now, sorted. If the driver did not
// say, those of the last reading are still taken to be there.
func (b *book) present(o Observation) []gpu.ProcessID {
	if !o.ProcessesKnown {
		if b.last == nil {
			return nil
		}
		return b.last.Processes
	}
	ids := make([]gpu.ProcessID, 0, len(o.Processes))
	for _, p := range o.Processes {
		ids = append(ids, p.ID)
	}
	slices.SortFunc(ids, compareProcess)
	return slices.Compact(ids)
}

// add notes what one observation saw.
func (s *sighting) add(o Observation, present []gpu.ProcessID) {
	if s.processes == nil {
		s.processes = make(map[gpu.ProcessID]gpu.Process)
	}
	for _, p := range o.Processes {
		s.processes[p.ID] = p
	}
	for _, id := range present {
		if _, ok := s.processes[id]; !ok {
			s.processes[id] = gpu.Process{ID: id}
		}
	}
	for _, a := range o.Activity {
		s.processes[a.Process.ID] = a.Process
		s.activity[a.Process.ID] += uint64(a.Weight)
		s.busy = s.busy || a.Weight > 0
	}
	s.signal = s.signal && o.ActivityKnown
	s.measured = s.measured && o.Utilization != nil
	s.busy = s.busy || o.Utilization != nil && *o.Utilization > 0
	s.holders, s.holdersKnown = o.Allocations, o.AllocationsKnown
}

// accept judges a reading. ΔE must lie between 0 and 1.5 × the maximum power ×
// Δt. A reading outside is held back; if the next one continues from it, the
// counter really started anew, and what was consumed between last and suspect
// is not known: nothing is added.
func (b *book) accept(r Reading, maxPower gpu.Watts, gapAfter time.Duration) {
	switch {
	case b.last == nil:
		b.Opened, b.Settled = r.At.Wall, r.At
		b.begin(r)
		return
	case plausible(*b.last, r, maxPower):
		if b.suspect != nil {
			b.Rejected++
		}
		b.append(r, r.Energy-b.last.Energy, gapAfter)
	case b.suspect != nil && plausible(*b.suspect, r, maxPower):
		b.Resets++
		s := *b.suspect
		later := b.since
		b.append(s, 0, gapAfter)
		b.since = later
		b.append(r, r.Energy-s.Energy, gapAfter)
	default:
		if b.suspect != nil {
			b.Rejected++
		}
		b.suspect = &r
		return
	}
	b.suspect = nil
}

// counterStep is how often the board refreshes its counter: a difference may
// hold that much more than the time between two readings.
const counterStep = 100 * time.Millisecond

// assumedMaxPower bounds a counter whose maximum power is not known.
const assumedMaxPower gpu.Watts = 10_000

// plausible reports whether b can follow a on one counter.
func plausible(a, b Reading, maxPower gpu.Watts) bool {
	if maxPower <= 0 {
		maxPower = assumedMaxPower
	}
	limit := 1.5 * float64(maxPower) * (b.At.Sub(a.At) + counterStep).Seconds() * 1000
	delta := b.Energy - a.Energy
	return delta >= 0 && float64(delta) <= limit
}

// append closes the interval from the last reading to r.
func (b *book) append(r Reading, energy gpu.Millijoules, gapAfter time.Duration) {
	b.pending = append(b.pending, interval{
		from: *b.last, to: r, energy: energy,
		sighting: b.since,
		gap:      b.restored || r.At.Sub(b.last.At) > gapAfter,
	})
	b.restored = false
	b.begin(r)
}

// begin makes r the start of the next interval.
func (b *book) begin(r Reading) {
	there := make(map[gpu.ProcessID]gpu.Process, len(r.Processes))
	for _, id := range r.Processes {
		there[id] = b.since.processes[id]
	}
	b.last, b.since = &r, newSighting(there)
}

// settle charges the intervals whose fate is certain at the given moment.
func (b *book) settle(now gpu.Instant, owners Owners, room *int) {
	for len(b.pending) > 0 {
		iv := &b.pending[0]
		who := iv.resolve(owners)
		final := now.Sub(iv.to.At) >= patience
		if !final && (who.pending || who.needsHolders(iv) && !iv.holdersKnown) {
			return
		}
		b.charge(iv, who, room)
		b.Energy += iv.energy
		b.Settled = iv.to.At
		b.pending = b.pending[1:]
	}
}

// resolve sorts the processes of an interval by their owners.
func (iv *interval) resolve(owners Owners) parties {
	var who parties
	for _, id := range slices.SortedFunc(maps.Keys(iv.processes), compareProcess) {
		p := iv.processes[id]
		if p.Owner.Kind == gpu.OwnerPending {
			p.Owner = owners(id)
			iv.processes[id] = p
		}
		who.add(p, iv.activity[id])
	}
	return who
}

func compareProcess(a, b gpu.ProcessID) int {
	if a.PID != b.PID {
		return int(int64(a.PID) - int64(b.PID))
	}
	switch {
	case a.Start < b.Start:
		return -1
	case a.Start > b.Start:
		return 1
	}
	return 0
}
