package workloads

import "sync"

// vocabulary keeps one copy of what many pods share: names of namespaces, nodes and
// kinds, and states of conditions.
type vocabulary struct {
	words  kept[string]
	states kept[state]
}

// maxWords bounds what is kept: nodes come and go.
const maxWords = 100_000

// kept keeps one copy of equal values. It is safe for concurrent use.
type kept[T comparable] struct {
	mu     sync.Mutex
	values map[T]*T
}

// one returns the kept copy of v.
func (k *kept[T]) one(v T) T { return *k.pointer(v) }

func (k *kept[T]) pointer(v T) *T {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p, ok := k.values[v]; ok {
		return p
	}
	if k.values == nil || len(k.values) >= maxWords {
		k.values = make(map[T]*T)
	}
	k.values[v] = &v
	return &v
}
