package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A book contains the accounts of one GPU. Each accepted reading of the counter is a mark, and an interval is the time
// between two consecutive marks. The intervals are settled in chronological order.
type book struct {
	gpu.Book
	// handedOut is set while the book shares its accounts with a state that was returned to a caller.
	handedOut bool
	// last is the newest mark, or nil before the first reading.
	last *Mark
	// pending contains the intervals that are not settled yet, oldest first.
	pending []interval
	// since contains the observations after last, or after pendingReset if pendingReset is set.
	since        window
	pendingReset *pendingReset
	// still is nil while the counter changes.
	still *standing
	read  Mark
	lag   lag
	// throttled contains the last known counters of throttled time.
	throttled *gpu.ThrottledTimes
	// restored is set if the last mark was restored from the state of an earlier exporter process.
	restored bool
	// list is the newest list of processes, observed at listed. seen is the time of the newest observation. Both times
	// are on the boot clock.
	list         []*gpu.Process
	listed, seen time.Duration
	// sampled is the end of the reported utilisation samples on the boot clock, or 0 if the last observation contained
	// no samples.
	// left contains the times at which processes recently left the GPU.
	sampled time.Duration
	left    map[gpu.ProcessID]time.Duration
	// holders contains the last known allocations. unknown contains the settled time in which the allocations were
	// unknown.
	holders []gpu.Allocation
	unknown Unknown
	// shortLived is not saved in the state, because the ledger learns its values again within seconds.
	shortLived shortLived
	recent     recentWork
	// meter learns the GPU's idle power. Until it is known, the ledger estimates it from kind, stored and configured.
	// maxPower is the maximum power of the hardware that the counter covers.
	meter              idleMeter
	kind               kind
	stored, configured gpu.Watts
	maxPower           gpu.Watts
	// trail is nil if the ledger keeps no intervals that explain charges.
	trail *trail
	// profiles contains the profiles whose time is not settled yet. profiled contains the end of the newest profile of
	// each MIG instance. The key for the whole GPU is the empty string.
	profiles []Profile
	profiled map[string]time.Duration
	// alone contains owners and the time in which each was the only owner on the GPU or on an instance.
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
	// share is the GPU's share of the module's energy since the last mark. If it is 0, the energy is not divided.
	share float64
	// listed is set if the processes at the mark were known. outdated is set if they come from an earlier observation.
	listed, outdated bool
	// took is the maximum time between the reading of the counter and At. It is at most the minimum length of a gap.
	took time.Duration
}

func (m *Mark) has(id gpu.ProcessID) bool {
	_, found := slices.BinarySearchFunc(m.Processes, id, compareProcess)
	return found
}

// A pendingReset is a reading that cannot follow the last mark, because the counter fell or rose too far. The next
// reading shows whether the value was wrong or the counter was reset.
type pendingReset struct {
	Mark
	before window // observations between the last mark and this reading
}

// An interval is the time between two marks. It is settled as a whole.
type interval struct {
	from, to Mark
	energy   gpu.Millijoules
	window
	// gap is set if the users between the marks are unknown, for example after a restart or a long time without
	// observations.
	// other is set for late energy if a process worked that was not present at the first mark.
	gap, other bool
	reset      bool
	// changed is the mark at which the counter last changed, or nil if the counter changed at the first mark.
	changed *Mark
	// uncounted is an upper bound of the energy that the counter lost in the interval.
	uncounted gpu.Millijoules
	// unmetered is set if the power of the GPU cannot be computed from the energy of the interval.
	unmetered bool
	// late contains the energy of an earlier time that the counter reported only at the end of this interval, or is
	// nil. For example, the counter did not change in the earlier time, or was not available. timeless is set for such
	// a late interval, because other intervals already count its time.
	late     *interval
	timeless bool
}

func (iv *interval) span() gpu.Span { return gpu.Span{From: iv.from.At.Boot, To: iv.to.At.Boot} }

func newBook() *book {
	return &book{since: newWindow(nil), left: make(map[gpu.ProcessID]time.Duration), shortLived: shortLived{work: make(map[gpu.Owner]time.Duration)}, recent: make(recentWork)}
}

// copyOnWrite must be called before the accounts change, because a returned state may share them.
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
	case b.open() && b.pendingReset == nil: // an unread counter is treated as a counter that does not change
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

// present returns the current list of processes. If the observation contains no list, it returns the last list for up
// to settleTimeout.
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

// learn records allocations, and adds them to the intervals that wait for them. If the last mark is recent, it also
// opens accounts for new holders. Without new marks a book deletes no accounts, so it would collect the accounts of all
// future pods.
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
	if sameCounter(b.last, &m) { // energy comes from one counter, which may cover a whole module
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

// ownShare returns the GPU's share of its module's energy in whole millijoules. The remaining fraction of a millijoule
// is added to the energy of the next interval.
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
		b.pending = slices.Delete(b.pending, 0, 1) // Delete clears the end of the slice, so the garbage collector can free the deleted interval's data
	}
}

func compareProcess(a, b gpu.ProcessID) int {
	return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Start, b.Start))
}
