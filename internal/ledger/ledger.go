package ledger

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// settleTimeout is the maximum time for which an interval waits for owners and allocations. It is also the maximum age
// of a list of processes. After this time, missing data counts as unknown.
const settleTimeout = 10 * time.Second

// Config configures a ledger.
type Config struct {
	// Tick is the usual time between two observations.
	Tick time.Duration
	// Retention is the time for which an account is kept after its owner has ended.
	Retention time.Duration
	// MaxProcesses limits the process accounts of all GPUs. Beyond this limit, the processes of an owner share
	// one folded account. 0 means no limit.
	MaxProcesses int
	// Profiling is set if the exporter profiles GPUs. If it is unset, the ledger drops the profiled work of a restored
	// state. Otherwise counters that no longer grow would suggest that the owners do not work.
	Profiling bool
	// Explain limits the memory and the age of the intervals that the ledger keeps to explain charges.
	Explain Explain
}

func (c Config) gapAfter() time.Duration { return max(10*time.Second, 5*c.Tick) }

// Ledger contains the accounts of all GPUs of a node. It is not safe for concurrent use; the sampler owns it.
type Ledger struct {
	cfg   Config
	books map[string]*book // books by UUID
}

// New returns an empty ledger.
func New(cfg Config) *Ledger {
	return &Ledger{cfg: cfg, books: make(map[string]*book)}
}

// Observation contains one reading of one GPU.
type Observation struct {
	UUID string
	// Model is the GPU's model, or empty if unknown. GPUs of the same model have about the same idle power.
	Model string
	At    gpu.Instant
	// Took is the maximum time between the reading of the counter and At.
	Took time.Duration
	// Energy is the value of the board's counter, or nil if it could not be read.
	Energy *gpu.Millijoules
	// ModuleShare is the GPU's share of the energy since the last reading, if the counter covers a whole module. 0
	// means that the energy is not divided.
	ModuleShare float64
	// Counter is the name of the counter from which Energy was read. It may be empty if the board has only one counter.
	// Two counters may have different start values or cover different hardware.
	Counter string
	// PowerSum is the integral of power, or nil if unknown. An observation may contain both Energy and PowerSum,
	// because the ledger uses the increase of PowerSum if Counter changes between two observations.
	PowerSum *gpu.Millijoules
	// MaxPower is the maximum power of the hardware that the counter covers, or 0 if it is unknown.
	MaxPower gpu.Watts
	// PowerLimit is the highest power limit that can be set for this GPU, or 0 if it is unknown.
	PowerLimit gpu.Watts
	// QuietPower is the power of the GPU in quiet times since the last observation, according to the driver's
	// samples. It is 0 if there was no quiet time. QuietSampled is set if these samples show every quiet time.
	QuietPower   gpu.Watts
	QuietSampled bool
	// StoredIdlePower was measured for a GPU of this kind in an earlier boot. ConfiguredIdlePower was set by the
	// operator. A value of 0 means unknown.
	StoredIdlePower, ConfiguredIdlePower gpu.Watts
	// Throttled contains counters of throttled time, or nil if they are unknown. A counter can start at any value.
	Throttled *gpu.ThrottledTimes
	// Profiles contains the newest profile of the GPU, or of each of its MIG instances.
	Profiles []Profile
	// Utilization is the busy share of the GPU, 0 to 1; nil if unknown.
	Utilization *float64

	// Processes contains the processes with a context on the GPU. The list is valid only if ProcessesKnown is set.
	// Otherwise the ledger uses the last known list for up to ten seconds.
	Processes      []*gpu.Process
	ProcessesKnown bool
	// Partitions describes the partitioning of the GPU. It is nil without MIG. Places contains the MIG instance of each
	// process.
	Partitions *gpu.Partitioning
	Places     map[gpu.ProcessID]string

	// Activity is the sampled activity in the time span Sampled, which may end before At. It is valid only if
	// ActivityKnown is set.
	Activity      []Activity
	Sampled       gpu.Span
	ActivityKnown bool
	// ActivityWeighted is set if the driver reports only which processes use the GPU at the moment of the reading. The
	// ledger then divides the activity of the GPU among these processes. If the GPU was busy, but no process used it at
	// that moment, the activity is unknown.
	ActivityWeighted bool
	// Instances contains the busy time of each MIG instance since its last known value. It is valid only if
	// InstancesKnown is set.
	Instances      map[string]time.Duration
	InstancesKnown bool

	// Allocations contains the allocations of this GPU. It is complete only if AllocationsKnown is set. Otherwise the
	// ledger also uses the last known allocations of the pods and units that are still alive. Alive contains the UIDs
	// of these live groups. It is nil if the UIDs are also unknown.
	Allocations      []gpu.Allocation
	AllocationsKnown bool
	Alive            map[string]bool
}

// Activity describes the busy time of one process within a time span, which must be positive.
type Activity struct {
	Process *gpu.Process
	gpu.Span
	Busy time.Duration
	// Served is set if an MPS server worked for clients of several owners. The driver does not report which client the
	// server worked for, so the ledger divides the work by allocations.
	Served bool
}

func (a *Activity) usage(busy time.Duration, active bool) usage {
	u := usage{Process: a.Process, activity: busy, active: active && !a.Served}
	if a.Served {
		u.served = busy
	}
	return u
}

// Observe adds one observation of one GPU. No energy is charged until [Ledger.Settle] is called. Observe ignores an
// observation that is not newer than the last one.
func (l *Ledger) Observe(o Observation) {
	b := l.books[o.UUID]
	if b == nil {
		b = newBook()
		b.trail = newTrail(l.cfg.Explain)
		l.books[o.UUID] = b
	}
	b.copyOnWrite()
	b.observe(o, l.cfg.gapAfter())
}

// Owners returns the owner of an observed process. The result may change from [gpu.OwnerPending] to a final
// owner, but never back.
type Owners func(gpu.ProcessID) gpu.Owner

type settlement struct {
	now    gpu.Instant
	owners Owners
	// room is the number of process accounts that may still be opened before MaxProcesses is reached.
	room  int
	peers map[kind]peers
}

// Settle charges every complete interval and deletes the accounts of owners that ended before the retention time.
func (l *Ledger) Settle(now gpu.Instant, owners Owners) {
	st := &settlement{now: now, owners: owners, room: l.room(), peers: l.peers()}
	for _, uuid := range slices.Sorted(maps.Keys(l.books)) {
		b := l.books[uuid]
		b.copyOnWrite()
		b.settle(st)
		b.Floor = b.idlePower(st)
		b.retire(l.cfg.Retention)
	}
}

// Tidy deletes data that the ledger probably does not need before the next boot of the node. The record of a replaced
// GPU, which is no longer known, is deleted. A GPU that is known but not shown has been lost for a long time. Tidy
// deletes only its process accounts, in case the GPU returns.
func (l *Ledger) Tidy(is func(uuid string) (known, shown bool)) {
	for uuid, b := range l.books {
		known, shown := is(uuid)
		switch {
		case !known:
			delete(l.books, uuid)
		case !shown:
			b.copyOnWrite()
			b.dropProcesses()
		}
	}
}

func (l *Ledger) room() int {
	if l.cfg.MaxProcesses <= 0 {
		return math.MaxInt32
	}
	room := l.cfg.MaxProcesses
	for _, b := range l.books {
		room -= b.processAccounts()
	}
	return room
}

// State is the part of the ledger that survives a restart of the exporter within one boot of the
// node. It is saved as [State.Records].
type State struct {
	Books map[string]*BookState // books by UUID
}

// BookState is the settled part of one GPU's book. After a restart, the time after the last settled interval belongs to
// a gap.
type BookState struct {
	gpu.Book
	// Base is the last settled mark.
	Base Mark `json:"base"`
	// Unknown contains the settled time since the allocations became unknown.
	Unknown Unknown `json:"unknown,omitzero"`
	// Still is the mark at which the counter last changed, or nil if the counter changed at Base.
	Still *Mark `json:"still,omitempty"`
	// Intervals returns the recent settled intervals, oldest first. It is nil if the ledger keeps no intervals. It is
	// not saved.
	Intervals iter.Seq[gpu.Interval] `json:"-"`
}

// State returns the settled state of all GPUs, including lost GPUs. Later calls of Observe and Settle do not change the
// returned state. Callers must not modify it.
func (l *Ledger) State() State {
	s := State{Books: make(map[string]*BookState, len(l.books))}
	for uuid, b := range l.books {
		if b.open() {
			s.Books[uuid] = &BookState{Book: b.Book, Base: b.base(), Unknown: b.unknown.clone(), Still: b.stillSince(), Intervals: b.trail.view()}
			b.handedOut = true
		}
	}
	return s
}

// Check returns an error if the ledger cannot continue from the state at the given time on the boot clock. The book
// must be settled exactly up to the time of Base. Otherwise the ledger would charge energy twice or would not advance
// the book.
func (s State) Check(now time.Duration) error {
	for uuid, b := range s.Books {
		if b == nil {
			return fmt.Errorf("check the book of %s: the book is missing", uuid)
		}
		err := check(&b.Book)
		if err == nil && b.Unknown.negative() {
			err = errors.New("an uncredited time is negative")
		}
		if err == nil && (b.Base.At.Boot != b.Settled.Boot || b.Base.Energy < 0) {
			err = fmt.Errorf("the book is settled up to %v after the boot, but its base is %d mJ at %v", b.Settled.Boot, b.Base.Energy, b.Base.At.Boot)
		}
		if f := b.Base.Former; err == nil && f != nil && (f.Energy < 0 || f.Counted < 0) {
			err = errors.New("the value of a withdrawn counter is negative")
		}
		if err == nil && b.Settled.Boot > now {
			err = fmt.Errorf("the book is settled up to %v after the boot, but the boot was only %v ago", b.Settled.Boot, now)
		}
		if err != nil {
			return fmt.Errorf("check the book of %s: %w", uuid, err)
		}
	}
	return nil
}

func check(b *gpu.Book) error {
	if b.Energy != b.Sum() {
		return fmt.Errorf("the board's energy is %d mJ, but the sum of the accounts is %d mJ", b.Energy, b.Sum())
	}
	least := min(b.Retired, slices.Min(b.Unattributed[:]), b.Uncounted, b.Estimated)
	if b.Unsampled != nil {
		least = min(least, gpu.Millijoules(*b.Unsampled))
	}
	for i := range b.Accounts {
		a := &b.Accounts[i]
		least = min(least, a.Idle, a.Estimated, slices.Min(a.Energy[:]))
		for _, t := range slices.Concat(a.Throttled[:], b.Throttled[:]) {
			least = min(least, t.Energy, gpu.Millijoules(t.Time))
		}
		least = min(least, gpu.Millijoules(min(a.Allocated, a.Active, a.Busy, a.GPUTime, a.Profiled.Time, a.Profiled.Tensor, a.Profiled.DRAM)))
		for _, p := range a.Processes {
			least = min(least, slices.Min(p.Energy[:]))
		}
		for _, u := range a.Units {
			least = min(least, u.Energy)
		}
		if i > 0 && compareAccount(b.Accounts[i-1].AccountKey, a.AccountKey) >= 0 {
			return errors.New("the accounts are not sorted")
		}
	}
	if least < 0 || b.IdlePower < 0 {
		return errors.New("an amount is negative")
	}
	return nil
}

// Restore returns a ledger that continues a saved state. The time since the saved marks becomes a gap of any length.
func Restore(cfg Config, s State) *Ledger {
	l := New(cfg)
	for uuid, st := range s.Books {
		b := newBook()
		b.trail = newTrail(cfg.Explain)
		b.Book, b.handedOut, b.restored = st.Book, true, true
		if !cfg.Profiling {
			b.forgetProfiles()
		}
		base := st.Base
		base.sum = nil // each exporter process starts its own integral of power at 0
		b.last, b.holders, b.unknown, b.read = &base, base.Holders, st.Unknown.clone(), base
		if s := st.Still; s != nil && s.Energy == st.Base.Energy && s.At.Boot < st.Base.At.Boot {
			b.still, b.read = &standing{from: *s, long: true}, *s
		}
		l.books[uuid] = b
	}
	return l
}

func clone(b gpu.Book) gpu.Book {
	b.Accounts = slices.Clone(b.Accounts)
	for i := range b.Accounts {
		b.Accounts[i].Processes = slices.Clone(b.Accounts[i].Processes)
		b.Accounts[i].Units = slices.Clone(b.Accounts[i].Units)
	}
	return b
}
