package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A book contains the accounts of one GPU. Each accepted reading of the counter is a mark, and an interval is the time
// between two consecutive marks. Intervals are settled in chronological order.
type book struct {
	gpu.Book
	// handedOut is set while the book shares its accounts with a state that was returned to a caller.
	handedOut bool
	// last is nil before the first reading.
	last *Mark
	// pending contains the intervals that are not settled yet, oldest first.
	pending []interval
	// since summarises the observations after pendingReset, or after last if pendingReset is nil.
	since        window
	pendingReset *pendingReset
	// still is nil while the counter changes.
	still *standing
	read  Mark
	lag   lag
	// throttled contains the last known counters of throttled time.
	throttled *gpu.ThrottledTimes
	// restored is set if last comes from the saved state of an earlier exporter process.
	restored bool
	// list is the newest list of processes, and listed is the time of its observation. seen is the time of the newest
	// observation. Both times are on the boot clock.
	list         []*gpu.Process
	listed, seen time.Duration
	// left contains the times at which processes recently left the GPU (boot clock).
	sampled time.Duration
	left    map[gpu.ProcessID]time.Duration
	// holders contains the last known allocations.
	holders []gpu.Allocation
	unknown Unknown
	// shortLived and recent are not saved, because the ledger learns them again within seconds.
	shortLived shortLived
	recent     recentWork
	// meter learns the GPU's idle power. While the idle power is unknown, the ledger uses kind, stored and configured
	// to estimate it. maxPower is the maximum power of the hardware that the counter covers.
	meter              idleMeter
	kind               kind
	stored, configured gpu.Watts
	maxPower           gpu.Watts
	// trail is nil if the ledger keeps no intervals to explain charges.
	trail *trail
	// profiles contains the profiles of time that is not settled yet. profiled contains the end of the newest profile
	// of each MIG instance. The empty key stands for the whole GPU.
	profiles []Profile
	profiled map[string]time.Duration
	// alone contains the owners that were alone on the GPU or on an instance.
	alone []soleUse
	// rest is the fraction of a millijoule that ownShare adds to the next interval.
	rest float64
}

// A Mark is one accepted reading of the board's counter, with the processes on the GPU at that time.
type Mark struct {
	At        gpu.Instant      `json:"at"`
	Energy    gpu.Millijoules  `json:"energy"`
	Counter   string           `json:"counter,omitempty"`   // empty if unknown
	Processes []gpu.ProcessID  `json:"processes,omitempty"` // sorted by id
	Holders   []gpu.Allocation `json:"holders,omitempty"`
	// Former is the counter that the board no longer provides, or nil if there is none.
	Former *Former `json:"former,omitempty"`
	sum    *gpu.Millijoules
	// share is the GPU's share of the module's energy since the last mark. If share is 0, the energy is not divided.
	share float64
	// listed is set if the processes at the mark are known. outdated is set if the list of processes comes from an
	// earlier observation.
	listed, outdated bool
	// took is the maximum time between the reading of the counter and At, but at most the minimum length of a gap.
	took time.Duration
}

func (m *Mark) has(id gpu.ProcessID) bool {
	_, found := slices.BinarySearchFunc(m.Processes, id, compareProcess)
	return found
}

// A pendingReset is a reading that cannot follow the last mark, because the counter fell or rose too far. The next
// reading shows whether this reading was wrong or whether the counter was reset.
type pendingReset struct {
	Mark
	before window // observations between the last mark and this reading
}

// An interval is the time between two marks. It is settled as a whole.
type interval struct {
	from, to Mark
	energy   gpu.Millijoules
	window
	// other is set for late energy if a process worked that was not present at the first mark.
	gap, other bool
	reset      bool
	// changed is the mark at which the counter last changed. It is nil if the counter changed at the first mark of the
	// interval.
	changed *Mark
	// uncounted is an upper bound of the energy that the counter lost in the interval.
	uncounted gpu.Millijoules
	// unmetered is set if the energy of the interval does not show the power of the GPU.
	unmetered bool
	// late contains energy from before this interval that the counter reported only at its end. For example, the
	// counter did not change for some time, or it was not available. late is nil if there is no such energy. timeless
	// is set for the interval in late, because other intervals already count its time.
	late     *interval
	timeless bool
}

func (iv *interval) span() gpu.Span { return gpu.Span{From: iv.from.At.Boot, To: iv.to.At.Boot} }

func newBook() *book {
	return &book{since: newWindow(nil), left: make(map[gpu.ProcessID]time.Duration), shortLived: shortLived{work: make(map[gpu.Owner]time.Duration)}, recent: make(recentWork)}
}

// copyOnWrite must be called before the accounts change, because a returned state may share the accounts.
func (b *book) copyOnWrite() {
	if b.handedOut {
		b.Book, b.handedOut = clone(b.Book), false
	}
}

func (b *book) open() bool { return b.last != nil }

func (b *book) base() Mark {
	if len(b.pending) > 0 {
		return b.pending[0].from
	}
	return *b.last
}

func (b *book) observe(o Observation, gapAfter time.Duration) {
	if o.At.Boot <= b.seen || b.open() && o.At.Boot <= b.last.At.Boot {
		return
	}
	b.seen, b.kind, b.maxPower = o.At.Boot, kind{o.Model, o.PowerLimit}, o.MaxPower
	b.stored, b.configured = o.StoredIdlePower, o.ConfiguredIdlePower
	b.presume(&o)
	throttled := b.throttle(o.Throttled)
	if !b.open() || o.At.Sub(b.sinceWhen()) > gapAfter {
		b.since, throttled = newWindow(nil), gpu.ThrottledTimes{} // after a gap, only the processes at both ends of the gap are known
	}
	b.since.addThrottled(throttled)
	list, listed := b.present(o)
	b.countUnsampled(&o)
	o.Activity = b.backdate(&o, list)
	b.since.add(o, list, listed)
	b.addProfiles(o.Profiles)
	b.learn(o, gapAfter)
	m := Mark{At: o.At, Counter: o.Counter, sum: o.PowerSum, share: o.ModuleShare, Processes: identities(list), Holders: b.since.holders, listed: listed, outdated: !o.ProcessesKnown, took: min(o.Took, gapAfter)}
	switch {
	case o.Energy != nil:
		m.Energy = *o.Energy
		b.accept(m, gapAfter)
	case b.open() && b.pendingReset == nil: // an unread counter counts as unchanged
		m.Energy, m.Counter = b.last.Energy, b.last.Counter
		b.stand(m, gapAfter)
	}
}

func (b *book) sinceWhen() gpu.Instant {
	if b.pendingReset != nil {
		return b.pendingReset.At
	}
	return b.last.At
}

// present returns the current list of processes. If the observation contains no list, present returns the last list for
// up to settleTimeout.
func (b *book) present(o Observation) (list []*gpu.Process, listed bool) {
	if o.ProcessesKnown {
		b.list, b.listed = o.Processes, o.At.Boot
	}
	if b.listed == 0 || o.At.Boot-b.listed > settleTimeout {
		return nil, false
	}
	return b.list, true
}

func identities(processes []*gpu.Process) []gpu.ProcessID {
	ids := make([]gpu.ProcessID, 0, len(processes))
	for _, p := range processes {
		ids = append(ids, p.ID)
	}
	slices.SortFunc(ids, compareProcess)
	return slices.Compact(ids)
}

// learn records allocations. It also completes pending intervals whose allocations are unknown. If the last mark is
// recent, learn opens accounts for new holders. Without this condition, a GPU whose counter cannot be read would
// collect an account for every new pod, because accounts are deleted only at new marks.
func (b *book) learn(o Observation, gapAfter time.Duration) {
	if !b.open() {
		return
	}
	if o.At.Sub(b.last.At) <= settleTimeout+gapAfter {
		b.openHolders(o.Allocations)
	}
	if !o.AllocationsKnown {
		b.learnAlive(o.Alive)
		return
	}
	for i := range b.pending {
		b.pending[i].learn(o.Allocations)
		if late := b.pending[i].late; late != nil {
			late.learn(o.Allocations)
		}
	}
}

func (iv *interval) learn(allocations []gpu.Allocation) {
	if !iv.holdersKnown {
		iv.holders, iv.holdersKnown = iv.holdersBefore(allocations), true
		iv.to.Holders = iv.holders
	}
}

func (b *book) append(m Mark, energy gpu.Millijoules, gapAfter time.Duration) {
	iv := interval{
		from: *b.last, to: m, energy: energy,
		window: b.since,
		gap:    b.restored || m.At.Sub(b.last.At) > gapAfter,
	}
	if sameCounter(b.last, &m) { // one counter may cover a whole module
		iv.energy = b.ownShare(energy, m.share)
	}
	if b.returned(&m) {
		iv.late = b.missed(&m)
	} else {
		m.Former = b.withdrawn(&m, energy)
	}
	b.pending = append(b.pending, iv)
	if b.still != nil {
		b.pending[len(b.pending)-1].changed = &b.still.from
	}
	b.restored = false
	b.begin(m)
}

// ownShare returns the GPU's share of its module's energy in whole millijoules. It adds the remaining fraction of a
// millijoule to the energy of the next interval.
func (b *book) ownShare(energy gpu.Millijoules, share float64) gpu.Millijoules {
	if share <= 0 || share >= 1 {
		return energy
	}
	exact := float64(energy)*share + b.rest
	own := min(gpu.Millijoules(exact), energy)
	b.rest = exact - float64(own)
	return own
}

func (b *book) begin(m Mark) {
	b.noteLeft(m)
	b.last, b.since = &m, b.after(m)
}

func (b *book) after(m Mark) window {
	w := newWindow(b.since.usagesOf(m.Processes))
	w.mig, w.places = b.since.mig, maps.Clone(b.since.places)
	maps.DeleteFunc(w.places, func(id gpu.ProcessID, _ string) bool { return !m.has(id) })
	w.listed, w.outdated = m.listed, m.outdated
	return w
}

func (b *book) settle(st *settlement) {
	for len(b.pending) > 0 {
		iv := &b.pending[0]
		parts, late, waits := iv.parts(st)
		if final := st.now.Sub(iv.to.At) >= settleTimeout; waits && !final {
			return
		}
		b.charge(st, iv, parts)
		b.Energy += iv.energy
		b.Throttled = b.Throttled.Plus(iv.throttledPart(iv.energy))
		if iv.late != nil {
			b.chargeLate(st, iv.late, late)
			b.Throttled = b.Throttled.Plus(iv.late.throttledPart(iv.late.energy))
		}
		b.Settled = iv.to.At
		b.Uncounted += iv.uncounted
		if iv.reset {
			b.Resets++
		}
		b.pending = slices.Delete(b.pending, 0, 1) // Delete clears the end of the slice, so the garbage collector can free the data
	}
}

func compareProcess(a, b gpu.ProcessID) int {
	return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Start, b.Start))
}
