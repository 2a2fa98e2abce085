package workloads

import (
	"slices"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/event"
)

// book contains the pods and owners that this replica has seen since it became the leader. It is safe for concurrent
// use.
type book struct {
	render    *renderer
	retention time.Duration
	// traced is called with each controller whose owner chain must be read
	traced  func(reference)
	started time.Time

	mu     sync.Mutex
	listed bool // whether the book contains all existing pods
	pods   map[key]*entry
	claims map[claimKey]*claim
	users  map[claimKey]entries // pods that refer to a claim
	gone   map[claimKey]bool    // deleted claims that pods still refer to
	owners map[reference]*owner
	queues clusterQueues
	// lives contains the owners of pods, except owners that could not be read. news contains the events of these owners
	// that takeNews has not returned yet.
	lives map[reference]*life
	news  []event.Event
}

type entries map[*entry]struct{}

type entry struct {
	pod *pod
	// gpu is set if the pod is known to request a GPU.
	gpu     bool
	amounts []amount
	// ended is the time when the pod finished or was deleted, or zero before that.
	ended time.Time
	// samples is nil until the series are rendered. workload is set only if the pod has no controller. Such a pod is
	// its own workload.
	samples  *podSamples
	workload *level
}

type owner struct {
	pods  entries
	chain *ownerChain // nil until the chain is known
	above *above
}

func newBook(render *renderer, retention time.Duration, traced func(reference)) *book {
	return &book{
		render: render, retention: retention, traced: traced, started: time.Now(),
		pods:   make(map[key]*entry),
		claims: make(map[claimKey]*claim),
		users:  make(map[claimKey]entries),
		gone:   make(map[claimKey]bool),
		owners: make(map[reference]*owner),
		queues: clusterQueues{of: make(map[localQueue]string), stale: make(map[string]bool)},
		lives:  make(map[reference]*life),
	}
}

// put stores the current state of a pod and reports whether the pod requests a GPU. It also returns the previous state
// of the pod, or nil if the pod had no known GPU request.
func (b *book) put(p *pod) (before *pod, gpu bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.pods[p.key()]
	if e == nil {
		if b.over(p.finished) {
			return nil, false
		}
		e = &entry{pod: p, ended: earlier(p.finished, time.Now())}
		b.pods[p.key()] = e
		b.addUser(e, p.claims)
		b.settle(e)
		return nil, e.gpu
	}
	before, e.pod = e.pod, p
	if e.ended.IsZero() && !p.finished.IsZero() {
		e.ended = time.Now() // the clocks of other machines must not shorten the retention
	}
	if !slices.Equal(before.claims, p.claims) {
		b.addUser(e, p.claims)
		b.removeUser(e, slices.DeleteFunc(slices.Clone(before.claims), func(c string) bool { return slices.Contains(p.claims, c) }))
	}
	if before.owner != p.owner {
		b.disown(e, before.owner, time.Now())
	}
	wasGPU := e.gpu
	b.settle(e)
	if !wasGPU {
		before = nil // the pod has no earlier event
	}
	return before, e.gpu
}

func (b *book) remove(p *pod) (gpu bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.pods[p.key()]
	if e == nil {
		return false
	}
	if !e.gpu {
		b.drop(e)
		return false
	}
	if e.ended.IsZero() {
		e.ended = time.Now()
	}
	return true
}

func (b *book) wants(of reference) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.owners[of] != nil
}

// putChain stores the owner chain of a controller, unless the book already has a more complete chain. It returns false
// if no pod has this controller any more.
func (b *book) putChain(of reference, l *ownerChain) (wanted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.owners[of]
	if o == nil {
		return false
	}
	if !l.replaces(o.chain) {
		return true
	}
	b.begin(l)
	if o.chain != nil {
		b.end(o.chain, time.Now())
	}
	o.chain, o.above = l, b.render.owner(l)
	for e := range o.pods {
		b.show(e)
	}
	return true
}

func (b *book) settle(e *entry) bool {
	p := e.pod
	lists := [][]amount{p.amounts}
	e.gpu = e.gpu || len(p.amounts) > 0
	for _, name := range p.claims {
		if c := b.claims[claimKey{p.namespace, name}]; c != nil {
			e.gpu = e.gpu || c.gpu
			lists = append(lists, c.amounts)
		}
	}
	if !e.gpu {
		return false
	}
	e.amounts = total(lists...)
	b.attachOwner(e)
	b.show(e)
	return true
}

// show renders the series of a pod after the pod's owners are known. Series from before that would have other labels,
// so Prometheus would store two series for the pod.
func (b *book) show(e *entry) {
	if e.pod.owner == (reference{}) {
		e.workload = b.render.bare(e.pod)
		e.samples = b.render.pod(e, e.workload.of, b.queues.resolve(e.pod.namespace, e.pod.queue), e.pod.labels)
		return
	}
	if o := b.owners[e.pod.owner]; o != nil && o.chain != nil {
		e.workload = nil
		e.samples = b.render.pod(e, o.above.of, b.queues.resolve(e.pod.namespace, e.pod.queue.or(o.chain.queue)), inherit(e.pod.labels, o.chain.labels))
	}
}

func (b *book) attachOwner(e *entry) {
	of := e.pod.owner
	if of == (reference{}) {
		return
	}
	o := b.owners[of]
	if o == nil {
		o = &owner{pods: make(entries, 1)}
		b.owners[of] = o
		b.traced(of)
	}
	o.pods[e] = struct{}{}
}

// disown removes a pod from its controller. If the controller has no other pod, disown also removes the controller. The
// given time is then the end of the controller's workloads.
func (b *book) disown(e *entry, from reference, at time.Time) {
	o := b.owners[from]
	if o == nil {
		return
	}
	delete(o.pods, e)
	if len(o.pods) > 0 {
		return
	}
	delete(b.owners, from)
	if o.chain != nil {
		b.end(o.chain, at)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.After(b) {
		return b
	}
	return a
}

func (b *book) over(ended time.Time) bool {
	return !ended.IsZero() && time.Since(ended) > b.retention
}

func (b *book) drop(e *entry) {
	delete(b.pods, e.pod.key())
	b.disown(e, e.pod.owner, e.ended)
	b.removeUser(e, e.pod.claims)
}

// sweep removes pods that ended more than the retention time ago. It removes pods in the order in which they ended,
// because a workload ends when its last pod ends.
func (b *book) sweep() {
	b.mu.Lock()
	defer b.mu.Unlock()
	var over []*entry
	for _, e := range b.pods {
		if b.over(e.ended) {
			over = append(over, e)
		}
	}
	slices.SortFunc(over, func(x, y *entry) int { return x.ended.Compare(y.ended) })
	for _, e := range over {
		b.drop(e)
	}
}

func (b *book) setListed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listed = true
}
