package verdict

import (
	"sync"
	"time"
)

// How many Nodes may change their identity in an hour: one in a hundred, and a few in
// a small fleet. It is far more than have boards swapped, and far fewer than a bad
// driver release would change. A Node that changes again and again takes no room
// from others, and is stopped as well.
const (
	budgetWindow  = time.Hour
	budgetLeast   = 10
	budgetPart    = 100
	budgetPerNode = 4
)

// Budget counts changes of identity. It is safe for concurrent use.
type Budget struct {
	mu    sync.Mutex
	spent map[string]*spending // by Node
}

// spending is the changes of one Node since the first of them.
type spending struct {
	since   time.Time
	changes int
	last    string
}

// NewBudget returns a budget of which nothing is spent.
func NewBudget() *Budget { return &Budget{spent: make(map[string]*spending)} }

// Take reports whether there is room for a change of a Node in a fleet of so many.
// The same change costs nothing the second time: its write may have failed.
func (b *Budget) Take(node, change string, fleet int, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, s := range b.spent {
		if now.Sub(s.since) >= budgetWindow {
			delete(b.spent, name)
		}
	}
	s := b.spent[node]
	switch {
	case s == nil && len(b.spent) >= max(fleet/budgetPart, budgetLeast):
		return false
	case s == nil:
		b.spent[node] = &spending{since: now, changes: 1, last: change}
		return true
	case s.last == change:
		return true
	case s.changes >= budgetPerNode:
		return false
	}
	s.changes++
	s.last = change
	return true
}
