package ledger_test

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// A board contains the true state of one simulated GPU and the observations that were passed to the ledger. The GPU's
// book depends only on these observations.
type board struct {
	uuid        string
	counter     gpu.Millijoules
	processes   map[uint32]*gpu.Process
	ended       []*gpu.Process // the last two processes that ended
	allocations []gpu.Allocation
	mig         *gpu.Partitioning
	throttled   gpu.ThrottledTimes
	profiling   profiling
	sampled     time.Duration // end of the utilisation samples reported so far
	// reloaded is set if the counter has restarted since the last mark. restarted is set if the exporter has restarted
	// since then.
	reloaded, restarted bool

	// between contains the observations since the last mark. None of them contained a correct reading.
	last    mark
	between []view
	spans   []span // spans that are not settled yet, oldest first
	list    []gpu.ProcessID
	listed  time.Duration                   // time at which the driver reported the list
	left    map[gpu.ProcessID]time.Duration // first mark at which each process was absent again

	// settled is the mark up to which the book is settled. energy is the energy of the book.
	settled mark
	energy  gpu.Millijoules
	book    *gpu.Book     // the newest published book
	shown   []gpu.Account // copy of the published accounts
	// held contains the last settled time at which each container held or used the GPU. used contains the last settled
	// time at which each process used the GPU.
	held map[gpu.Owner]time.Duration
	// unknown is the settled time since the allocations were last known.
	unknown time.Duration
	used    map[gpu.ProcessID]time.Duration
}

type view struct {
	list    []gpu.ProcessID // processes with a context, or nil if the list is more than ten seconds old
	active  []gpu.ProcessID
	signal  bool // set if the activity of processes or instances was known
	blind   bool // set if no list of processes is valid
	busy    bool // set if the utilisation was measured
	holders []gpu.Owner
	live    []gpu.Owner // holders of the whole GPU with a live pod and a known UID
}

// A mark is a correct reading of the counter. An observation without a reading makes a mark with the value of the
// previous mark.
type mark struct {
	at      time.Duration
	counter gpu.Millijoules
	view
}

// A span is the interval between two marks.
type span struct {
	from, to  mark
	between   []view
	energy    gpu.Millijoules
	restarted bool
	// allocationsKnown is set if the allocations became known before the span was settled.
	allocationsKnown bool
}

func newBoard(uuid string) *board {
	return &board{
		uuid: uuid, counter: 50_000_000, processes: map[uint32]*gpu.Process{},
		book: &gpu.Book{}, left: map[gpu.ProcessID]time.Duration{}, held: map[gpu.Owner]time.Duration{}, used: map[gpu.ProcessID]time.Duration{},
	}
}

// The bits of x select the containers. The bits of y select the details of the allocations.
func (b *board) allocate(x, y byte) {
	b.allocations = nil
	for i, c := range containers {
		if x>>i&1 == 1 {
			h := holds(c, int(y>>i&1)+1)
			h.Live = y>>(i+4)&1 == 0
			if b.mig != nil && i < len(b.mig.Instances) {
				h.GPUInstance = b.mig.Instances[i].ID
			}
			b.allocations = append(b.allocations, h)
		}
	}
}

// divide turns o into an observation of a board in MIG mode. In this mode, the driver reports only the utilisation of
// instances.
func (b *board) divide(o *ledger.Observation, sight byte) {
	if b.mig == nil {
		return
	}
	o.Partitions, o.Places = b.mig, map[gpu.ProcessID]string{}
	o.InstancesKnown, o.Instances = o.ActivityKnown, map[string]time.Duration{}
	o.Utilization, o.ActivityKnown, o.Sampled = nil, false, gpu.Span{}
	for k, i := range b.mig.Instances {
		o.Instances[i.ID] = 0
		for _, p := range o.Processes {
			if int(p.ID.PID+uint32(sight))%(len(b.mig.Instances)+1) == k {
				o.Places[p.ID] = i.ID
			}
		}
	}
}

// right is set if the reading in the observation is correct. A correct reading ends a span.
func (b *board) note(o ledger.Observation, right bool) {
	v := b.view(o)
	for i := range b.spans {
		b.spans[i].allocationsKnown = b.spans[i].allocationsKnown || o.AllocationsKnown
	}
	if !right || o.Energy == nil && b.last.at == 0 {
		b.between = append(b.between, v)
		return
	}
	to := mark{at: o.At.Boot, counter: b.last.counter, view: v}
	if o.Energy != nil {
		to.counter = *o.Energy
	}
	s := span{from: b.last, to: to, between: b.between, restarted: b.restarted, allocationsKnown: o.AllocationsKnown}
	if !b.reloaded {
		s.energy = to.counter - b.last.counter
	}
	if b.last.at == 0 {
		b.settled = to
	} else {
		b.spans = append(b.spans, s)
	}
	for _, id := range b.last.list {
		if !to.blind && !slices.Contains(to.list, id) {
			b.left[id] = to.at
		}
	}
	maps.DeleteFunc(b.left, func(id gpu.ProcessID, _ time.Duration) bool { return slices.Contains(to.list, id) })
	b.last, b.between, b.reloaded, b.restarted = to, nil, false, false
}

func (b *board) view(o ledger.Observation) view {
	if o.ProcessesKnown {
		b.list, b.listed = nil, o.At.Boot
		for _, p := range o.Processes {
			b.list = append(b.list, p.ID)
		}
	}
	v := view{signal: o.ActivityKnown, busy: o.Utilization != nil}
	if o.Partitions != nil {
		v.signal = o.InstancesKnown
	}
	if v.blind = o.At.Boot-b.listed > 10*time.Second; !v.blind {
		v.list = b.list
	}
	for _, a := range o.Activity {
		if left, ok := b.left[a.Process.ID]; ok && b.last.at-left <= 10*time.Second && a.From < left && !slices.Contains(v.list, a.Process.ID) {
			continue // the process was active before it left
		}
		v.active = append(v.active, a.Process.ID)
	}
	for _, h := range o.Allocations {
		if o.AllocationsKnown {
			v.holders = append(v.holders, h.Owner)
		}
		if o.AllocationsKnown && h.Live && h.Owner.UID != "" && h.GPUInstance == "" {
			v.live = append(v.live, h.Owner)
		}
	}
	return v
}

// The ledger does not save spans that are not settled.
func (b *board) restart() {
	b.last, b.between, b.spans = b.settled, nil, nil
	b.list, b.listed = nil, 0
	clear(b.left)
	b.profiling.last, b.profiling.waiting = nil, nil
	b.restarted, b.reloaded = true, false
}

// settle removes the spans up to a time and returns them.
func (b *board) settle(upTo time.Duration, owner ledger.Owners) []span {
	n := 0
	for n < len(b.spans) && b.spans[n].to.at <= upTo {
		s := b.spans[n]
		b.settled = s.to
		b.energy += s.energy
		for _, c := range s.to.holders {
			b.held[c] = s.to.at
		}
		for _, id := range s.to.list {
			b.used[id] = s.to.at
			if o := owner(id); o.Kind == gpu.OwnerPod {
				b.held[o] = s.to.at
			}
		}
		n++
	}
	done := b.spans[:n]
	b.spans = b.spans[n:]
	return done
}

// absence returns the time since any container of the pod last used or held the GPU. It ignores containers without an
// account.
func (b *board) absence(pod gpu.Owner) time.Duration {
	var last time.Duration
	for _, a := range b.book.Accounts {
		if a.Group() == pod.Group() {
			last = max(last, b.held[a.Owner])
		}
	}
	return b.settled.at - last
}

// A gap contains no observations between its ends.
func (s *span) gap() bool { return s.restarted || s.to.at-s.from.at > 10*time.Second }

// sole reports whether the pod was alone on the GPU. The allocations must be known. No other owner may have worked in
// the span, and no other live pod may hold the GPU at the end of the span.
func (s *span) sole(pod gpu.Owner, owner ledger.Owners) bool {
	if !s.allocationsKnown {
		return false
	}
	views := []view{s.to.view}
	if s.gap() {
		views = append(views, s.from.view)
	} else {
		views = append(views, s.between...)
	}
	for _, v := range views {
		for _, id := range v.active {
			if !s.gap() && owner(id).Group() != pod {
				return false
			}
		}
		if v.blind {
			return false
		}
	}
	return !s.from.blind && !slices.ContainsFunc(s.to.live, func(c gpu.Owner) bool { return c.Group() != pod })
}

func (s *span) measured() bool {
	return s.throughout(func(v view) bool { return v.busy })
}

func (s *span) signal() bool {
	return s.throughout(func(v view) bool { return v.signal })
}

func (s *span) throughout(holds func(view) bool) bool {
	return !s.gap() && holds(s.to.view) && !slices.ContainsFunc(s.between, func(v view) bool { return !holds(v) })
}
