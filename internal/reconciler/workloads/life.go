package workloads

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/gpuledger/gpuledger/internal/event"
)

const (
	eventCreated = "workload_created"
	eventEnded   = "workload_ended" // the last GPU pod of the workload ended
)

type life struct {
	created time.Time
	parent  reference
	chains  int // number of owner chains that contain the workload
}

// begin records that pods use an owner chain. For each workload that no other chain contains, begin adds the creation
// event.
func (b *book) begin(l *ownerChain) {
	for i, at := range l.levels {
		if l.created[i].IsZero() {
			continue // the owner could not be read
		}
		w := b.lives[at]
		if w == nil {
			w = &life{created: l.created[i], parent: l.parent(i)}
			b.lives[at] = w
			b.news = append(b.news, w.createdEvent(at))
		}
		w.chains++
	}
}

// end records that no pod uses an owner chain any more. If no other chain contains a workload of this chain, the
// workload has ended.
func (b *book) end(l *ownerChain, at time.Time) {
	for i, of := range l.levels {
		w := b.lives[of]
		if w == nil || l.created[i].IsZero() {
			continue
		}
		if w.chains--; w.chains == 0 {
			delete(b.lives, of)
			b.news = append(b.news, w.endedEvent(of, at))
		}
	}
}

func (b *book) takeNews() []event.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	news := b.news
	b.news = nil
	return news
}

func (w *life) createdEvent(of reference) event.Event {
	return w.event(of, eventCreated, w.created)
}

func (w *life) endedEvent(of reference, at time.Time) event.Event {
	return w.event(of, eventEnded, at, moment(at))
}

func (w *life) event(of reference, kind string, at time.Time, which ...string) event.Event {
	return event.Event{
		Kind: kind, ID: event.ID(append([]string{string(of.uid), kind}, which...)...), At: at.UTC(),
		Namespace: of.namespace, WorkloadKind: of.kind, WorkloadName: of.name, WorkloadUID: string(of.uid),
		OwnerKind: w.parent.kind, OwnerName: w.parent.name,
	}
}

// workloads returns the creation events of all workloads, oldest first.
func (b *book) workloads() (created []event.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for of, w := range b.lives {
		created = append(created, w.createdEvent(of))
	}
	slices.SortFunc(created, func(a, b event.Event) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return created
}

// gpuPods returns the pods that are known to request a GPU, oldest first.
func (b *book) gpuPods(all []any) (pods []*pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, obj := range all {
		if p, ok := obj.(*pod); ok && b.requestsGPU(p) {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *pod) int { return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.uid, b.uid)) })
	return pods
}

func (b *book) requestsGPU(p *pod) bool {
	if e := b.pods[p.key()]; e != nil && e.gpu {
		return true
	}
	return len(p.amounts) > 0 || slices.ContainsFunc(p.claims, func(name string) bool {
		c := b.claims[claimKey{p.namespace, name}]
		return c != nil && c.gpu
	})
}

// current yields the events that describe the current state, including events of pods that ended before this replica
// became the leader.
func (w *Workloads) current(b *book, pods cache.Store) iter.Seq[[]byte] {
	return func(yield func(line []byte) bool) {
		for _, e := range b.workloads() {
			if line, err := e.Append(nil); err == nil && !yield(line) {
				return
			}
		}
		for _, p := range b.gpuPods(pods.List()) {
			for _, c := range changes(nil, p, time.Time{}) {
				e := c.event(p)
				if line, err := e.Append(nil); err == nil && !c.unsure && !yield(line) {
					return
				}
			}
		}
	}
}
