package workloads

import (
	"slices"
	"sync"
	"time"
)

// book is what is known during one term. It is safe for concurrent use.
type book struct {
	render    *renderer
	retention time.Duration
	// traced is called for a controller whose owner chain is needed.
	traced func(reference)

	mu     sync.Mutex
	listed bool // whether all pods that there are have been put
	pods   map[key]*entry
	claims map[claimKey]*claim
	users  map[claimKey]entries // the pods that refer to a claim
	gone   map[claimKey]bool    // claims that are deleted, but have users
	owners map[reference]*owner
}

type entries map[*entry]struct{}

// entry is a pod in the book.
type entry struct {
	pod *pod
	// gpu is set once the pod is known to ask for a GPU, and asks is what it asks for.
	gpu  bool
	asks []ask
	// ended is when the pod finished or was deleted, zero if it was not.
	ended time.Time
	// samples is what is shown of it, nil if nothing is yet. A pod without a controller
	// is its own workload, which other pods may belong to as well.
	samples  *podSamples
	workload *level
}

// owner is a controller of pods in the book.
type owner struct {
	pods  entries
	chain *ownerChain // nil until it is known, and with it above
	above *above
}

func newBook(render *renderer, retention time.Duration, traced func(reference)) *book {
	return &book{
		render: render, retention: retention, traced: traced,
		pods:   make(map[key]*entry),
		claims: make(map[claimKey]*claim),
		users:  make(map[claimKey]entries),
		gone:   make(map[claimKey]bool),
		owners: make(map[reference]*owner),
	}
}

// put takes a pod as it is now, and returns what was known of it before, nil if
// nothing was, and whether it asks for a GPU.
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
		e.ended = time.Now() // what others' clocks say must not cut the retention
	}
	if !slices.Equal(before.claims, p.claims) {
		b.addUser(e, p.claims)
		b.removeUser(e, slices.DeleteFunc(slices.Clone(before.claims), func(c string) bool { return slices.Contains(p.claims, c) }))
	}
	if before.owner != p.owner {
		b.disown(e, before.owner)
	}
	wasGPU := e.gpu
	b.settle(e)
	if !wasGPU {
		before = nil // its first event is yet to be told
	}
	return before, e.gpu
}

// remove takes note that a pod is deleted, and reports whether it asked for a GPU.
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

// wants reports whether a pod in the book has this controller.
func (b *book) wants(of reference) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.owners[of] != nil
}

// putChain takes the owner chain of a controller, unless more is known.
func (b *book) putChain(of reference, l *ownerChain) (wanted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.owners[of]
	if o == nil {
		return false
	}
	if !l.tellsMoreThan(o.chain) {
		return true
	}
	o.chain, o.above = l, b.render.owner(l)
	for e := range o.pods {
		b.show(e)
	}
	return true
}

// settle works out anew what the entry's pod asks for, and reports whether that is a
// GPU.
func (b *book) settle(e *entry) bool {
	p := e.pod
	lists := [][]ask{p.asks}
	e.gpu = e.gpu || len(p.asks) > 0
	for _, name := range p.claims {
		if c := b.claims[claimKey{p.namespace, name}]; c != nil {
			e.gpu = e.gpu || c.gpu
			lists = append(lists, c.asks)
		}
	}
	if !e.gpu {
		return false
	}
	e.asks = total(lists...)
	b.attachOwner(e)
	b.show(e)
	return true
}

// show renders the entry's samples, once its owners are known. Series with labels that
// change soon after would be two series for ever.
func (b *book) show(e *entry) {
	if e.pod.owner == (reference{}) {
		e.workload = b.render.bare(e.pod)
		e.samples = b.render.pod(e, e.workload.of)
		return
	}
	if o := b.owners[e.pod.owner]; o != nil && o.chain != nil {
		e.workload = nil
		e.samples = b.render.pod(e, o.above.of)
	}
}

// attachOwner notes that the entry's pod has a controller, whose owner chain is traced if it is
// new.
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

func (b *book) disown(e *entry, from reference) {
	if o := b.owners[from]; o != nil {
		delete(o.pods, e)
		if len(o.pods) == 0 {
			delete(b.owners, from)
		}
	}
}

// earlier bounds a moment that another clock gave.
func earlier(a, b time.Time) time.Time {
	if a.After(b) {
		return b
	}
	return a
}

// over reports whether what ended then is not shown any more.
func (b *book) over(ended time.Time) bool {
	return !ended.IsZero() && time.Since(ended) > b.retention
}

func (b *book) drop(e *entry) {
	delete(b.pods, e.pod.key())
	b.disown(e, e.pod.owner)
	b.removeUser(e, e.pod.claims)
}

// sweep drops the pods that ended longer ago than the retention.
func (b *book) sweep() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.pods {
		if b.over(e.ended) {
			b.drop(e)
		}
	}
}

// setListed is called once all pods that there are have been put.
func (b *book) setListed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listed = true
}
