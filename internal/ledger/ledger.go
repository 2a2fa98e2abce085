package ledger

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// settleTimeout is how long an interval waits for a process to be resolved or for the
// kubelet's word, and how long a list of processes counts that is not renewed. After
// that what is missing is final.
const settleTimeout = 10 * time.Second

// Config sets the ledger's rules that are not fixed.
type Config struct {
	// Tick is the usual time between two observations.
	Tick time.Duration
	// Retention is how long accounts are kept after their owner is gone.
	Retention time.Duration
	// MaxProcesses bounds the process accounts over all GPUs. Beyond it, a new
	// process shares one folded account of its owner. 0 means no bound.
	MaxProcesses int
}

// gapAfter is the length from which on an interval is a gap: nobody was looking.
func (c Config) gapAfter() time.Duration { return max(10*time.Second, 5*c.Tick) }

// Ledger holds the books of all GPUs of a node. It is not safe for concurrent
// use; its owner is the sampler.
type Ledger struct {
	cfg   Config
	books map[string]*book // by UUID
}

// New returns a ledger with no books.
func New(cfg Config) *Ledger {
	return &Ledger{cfg: cfg, books: make(map[string]*book)}
}

// Observation is one look at one GPU.
type Observation struct {
	UUID string
	At   gpu.Instant
	// Took is by how much the counter may have been read before At.
	Took time.Duration
	// Energy is the board's counter, nil if it could not be read.
	Energy *gpu.Millijoules
	// Part is the GPU's part of the energy since the last reading, if the counter covers a
	// whole module; 0 means undivided.
	Part float64
	// Counter names the counter that Energy is of, where the board has several; may be
	// empty. Two of them count from different moments, or different things.
	Counter string
	// MaxPower is the most that the counter's scope can draw; 0 if unknown.
	MaxPower gpu.Watts
	// PowerLimit is the highest power limit of the GPU alone; 0 if unknown.
	PowerLimit gpu.Watts
	// Utilization of the GPU, 0 to 1; nil if unknown.
	Utilization *float64

	// Processes hold a context on the GPU. They are meaningful only if
	// ProcessesKnown; otherwise the last list still counts, for ten seconds.
	Processes      []*gpu.Process
	ProcessesKnown bool
	// MIG is how the GPU is divided, nil if it is not. Places says on which
	// instance each process is.
	MIG    *gpu.Partitioning
	Places map[gpu.ProcessID]string

	// Activity is what the driver sampled, complete over Sampled, which may end
	// before this moment. Without a signal (ActivityKnown false) owners are not
	// told apart by activity.
	Activity      []Activity
	Sampled       gpu.Span
	ActivityKnown bool
	// Instances is how long each MIG instance was busy since that was last known.
	// Without a signal (InstancesKnown false) instances are not told apart by it.
	Instances      map[string]time.Duration
	InstancesKnown bool

	// Allocations are those of this GPU, meaningful only if AllocationsKnown.
	Allocations      []gpu.Allocation
	AllocationsKnown bool
}

// Activity is how long one process was busy within a time, which is more than 0.
type Activity struct {
	Process *gpu.Process
	gpu.Span
	Busy time.Duration
	// Served is set for a part of the work of an MPS server with clients of several
	// owners. Which client did it is not known: what they hold decides.
	Served bool
}

// presence returns the process, with a part of what it did.
func (a *Activity) presence(busy time.Duration, active bool) presence {
	p := presence{Process: a.Process, activity: busy, active: active && !a.Served}
	if a.Served {
		p.served = busy
	}
	return p
}

// Observe adds one look at one GPU. Nothing is charged until [Ledger.Settle].
// Observations of a GPU that are not newer than the last one are ignored.
func (l *Ledger) Observe(o Observation) {
	b := l.books[o.UUID]
	if b == nil {
		b = newBook()
		l.books[o.UUID] = b
	}
	b.copyOnWrite()
	b.observe(o, l.cfg.gapAfter())
}

// Owners resolves a process that was observed before; its answer may change from
// [gpu.OwnerPending] to a final one, never back.
type Owners func(gpu.ProcessID) gpu.Owner

// settlement is one call of Settle.
type settlement struct {
	now    gpu.Instant
	owners Owners
	// room is how many more process accounts may be opened.
	room int
}

// Settle charges every interval that is complete at the given moment and retires
// what has ended.
func (l *Ledger) Settle(now gpu.Instant, owners Owners) {
	st := &settlement{now: now, owners: owners, room: l.room()}
	for _, uuid := range slices.Sorted(maps.Keys(l.books)) {
		b := l.books[uuid]
		b.copyOnWrite()
		b.settle(st)
		b.retire(l.cfg.Retention)
	}
}

// Tidy drops what nothing can be charged to any more, and what would take the room of
// the living until the node boots: the book of a GPU that is not known any more, since
// another is in its place, and the process accounts in a book that is not shown any more,
// since its GPU is lost for long. The rest of such a book goes on when its GPU returns.
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

// room returns how many more process accounts may be opened.
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

// State is what survives a restart of the exporter within one boot of the node. It is
// saved as [State.Records].
type State struct {
	Books map[string]*BookState // by UUID
}

// BookState is the settled part of one GPU's book. Intervals that were not
// settled yet are not part of it: after a restart they belong to the gap.
type BookState struct {
	gpu.Book
	// Base is the mark up to which the book is settled.
	Base Mark `json:"base"`
}

// State returns the settled state of all GPUs, also of those that are gone: what is saved,
// and what is shown. It does not change when the ledger goes on, and must not be changed.
func (l *Ledger) State() State {
	s := State{Books: make(map[string]*BookState, len(l.books))}
	for uuid, b := range l.books {
		if b.open() {
			s.Books[uuid] = &BookState{Book: b.Book, Base: b.base()}
			b.handedOut = true
		}
	}
	return s
}

// Check reports whether the state can be continued at a time on the boot clock: every book
// balances, no amount is negative, the accounts stand in order, and the base is where the
// book ends, which is not in the future. What the board counted from a base of nowhere on
// would be charged to somebody, and a book would stand still until its base is reached.
func (s State) Check(now time.Duration) error {
	for uuid, b := range s.Books {
		if b == nil {
			return fmt.Errorf("check the book of %s: there is none", uuid)
		}
		err := check(&b.Book)
		if err == nil && (b.Base.At.Boot != b.Settled.Boot || b.Base.Energy < 0) {
			err = fmt.Errorf("settled up to %v after the boot, but the base is %d mJ at %v", b.Settled.Boot, b.Base.Energy, b.Base.At.Boot)
		}
		if err == nil && b.Settled.Boot > now {
			err = fmt.Errorf("settled up to %v after the boot, which was only %v ago", b.Settled.Boot, now)
		}
		if err != nil {
			return fmt.Errorf("check the book of %s: %w", uuid, err)
		}
	}
	return nil
}

func check(b *gpu.Book) error {
	if b.Energy != b.Sum() {
		return fmt.Errorf("energy is %d mJ, but the accounts hold %d mJ", b.Energy, b.Sum())
	}
	least := min(b.Retired, slices.Min(b.Unattributed[:]))
	if b.Unsampled != nil {
		least = min(least, gpu.Millijoules(*b.Unsampled))
	}
	for i := range b.Accounts {
		a := &b.Accounts[i]
		least = min(least, a.Idle, slices.Min(a.Energy[:]), gpu.Millijoules(a.Allocated), gpu.Millijoules(a.Active), gpu.Millijoules(a.GPUTime))
		for _, p := range a.Processes {
			least = min(least, slices.Min(p.Energy[:]))
		}
		if i > 0 && compareAccount(b.Accounts[i-1].AccountKey, a.AccountKey) >= 0 {
			return errors.New("the accounts are not in order")
		}
	}
	if least < 0 || b.IdlePower < 0 {
		return errors.New("an amount is negative")
	}
	return nil
}

// Restore returns a ledger that continues a saved state. The time since the
// saved marks is a gap, however short.
func Restore(cfg Config, s State) *Ledger {
	l := New(cfg)
	for uuid, st := range s.Books {
		b := newBook()
		b.Book, b.handedOut, b.restored = st.Book, true, true
		b.last = &st.Base
		l.books[uuid] = b
	}
	return l
}

// clone copies a book deeply enough that neither side sees the other's changes.
func clone(b gpu.Book) gpu.Book {
	b.Accounts = slices.Clone(b.Accounts)
	for i := range b.Accounts {
		b.Accounts[i].Processes = slices.Clone(b.Accounts[i].Processes)
	}
	return b
}
