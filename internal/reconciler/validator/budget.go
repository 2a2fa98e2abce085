package validator

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// These values limit the number of Nodes that may change their identity in an hour. The limit is
// one in a hundred, or a few in a small fleet. This is far more than the usual board replacements,
// and far less than a bad driver release would change. A Node that changes repeatedly uses no
// budget of other Nodes and is also stopped.
const (
	budgetWindow  = time.Hour
	budgetLeast   = 10
	budgetPart    = 100
	budgetPerNode = 4
)

// Budget counts changes of identity.
type Budget struct {
	spent map[string]spending // by Node
	// approved counts the changes beyond the limit that an administrator approved. granted contains the
	// Nodes that used such a change. Each Node may use one per hour, so that a Node that changes
	// repeatedly leaves the rest to other Nodes.
	approved int
	granted  map[string]spending
	// expires is the Unix time before which no spending expires.
	expires int64
}

// spending contains the changes of one Node since its first change.
type spending struct {
	Since   int64  `json:"since"` // Unix time
	Changes int    `json:"changes"`
	Last    string `json:"last"` // digest of the last change
}

func (s spending) expired(now time.Time) bool {
	return now.Sub(time.Unix(s.Since, 0)) >= budgetWindow
}

// NewBudget returns an unused budget.
func NewBudget() *Budget {
	return &Budget{spent: make(map[string]spending), granted: make(map[string]spending)}
}

// Take reports whether a change of a Node is within the budget of a fleet of this size. Repeating a
// change is free, because its write may have failed.
func (b *Budget) Take(node, change string, fleet int, now time.Time) bool {
	b.sweep(now)
	last := digest(change)
	s, known := b.spent[node]
	g, granted := b.granted[node]
	switch {
	case known && s.Last == last, granted && g.Last == last:
		return true
	case !known && len(b.spent) < max(fleet/budgetPart, budgetLeast):
		b.spent[node] = spending{Since: now.Unix(), Changes: 1, Last: last}
		return true
	case known && s.Changes < budgetPerNode:
		b.spent[node] = spending{Since: s.Since, Changes: s.Changes + 1, Last: last}
		return true
	case b.approved > 0 && !granted:
		b.approved--
		b.granted[node] = spending{Since: now.Unix(), Changes: 1, Last: last}
		return true
	}
	return false
}

// sweep removes expired spendings. It looks at all spendings only if one of them has expired, because an approved
// change of a whole fleet has one for each Node.
func (b *Budget) sweep(now time.Time) {
	if now.Unix() < b.expires {
		return
	}
	first := now.Unix()
	for _, list := range []map[string]spending{b.spent, b.granted} {
		maps.DeleteFunc(list, func(_ string, s spending) bool { return s.expired(now) })
		for _, s := range list {
			first = min(first, s.Since)
		}
	}
	b.expires = first + int64(budgetWindow/time.Second)
}

// Approve adds changes beyond the limit.
func (b *Budget) Approve(changes int) { b.approved += changes }

// MarshalText returns the used budget without approved changes.
func (b *Budget) MarshalText() ([]byte, error) { return json.Marshal(b.spent) }

// UnmarshalText restores the used budget from the text of [Budget.MarshalText].
func (b *Budget) UnmarshalText(text []byte) error {
	spent := make(map[string]spending)
	if err := json.Unmarshal(text, &spent); err != nil {
		return fmt.Errorf("decode used budget: %w", err)
	}
	if spent != nil {
		b.spent, b.expires = spent, 0
	}
	return nil
}

// digest is short, so that the budget of a large fleet fits into an annotation.
func digest(change string) string {
	sum := sha256.Sum256([]byte(change))
	return hex.EncodeToString(sum[:8])
}
