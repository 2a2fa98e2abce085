package validator

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// In an hour, one Node in a hundred may change, but at least ten Nodes. Usual board replacements change far fewer
// Nodes, and a bad driver release would change far more Nodes. There is a budget for changes of identity, and another
// budget for Nodes that become unhealthy. A Node that changes repeatedly does not use up the budget of other Nodes.
const (
	budgetWindow  = time.Hour
	budgetLeast   = 10
	budgetPart    = 100
	budgetPerNode = 4
)

// Budget limits the changes of Nodes. It is not safe for concurrent use.
type Budget struct {
	spent map[string]spending // changes by Node
	// approved is the number of unused changes that an administrator approved in addition to the limit. They expire at
	// the time until. granted contains the Nodes that used an approved change. Each Node may use one approved change
	// per hour, so that a Node that changes repeatedly does not use up all approved changes.
	approved int
	until    time.Time
	granted  map[string]spending
	// expires is the earliest Unix time at which an entry of spent or granted may expire.
	expires int64
}

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

// Take reports whether the budget allows a change of a Node, and subtracts the change from the budget. The budget
// depends on fleet, the number of Nodes. A repetition of the Node's last change is always allowed and is not
// subtracted, because the first write may have failed.
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
	case b.approved > 0 && !now.After(b.until) && !granted:
		b.approved--
		b.granted[node] = spending{Since: now.Unix(), Changes: 1, Last: last}
		return true
	}
	return false
}

// sweep removes expired entries. It reads all entries only if an entry has expired, because there can be an entry for
// each Node. If the time of an entry is in the future, because a clock was wrong, sweep replaces this time with the
// current time. Otherwise the entry could block the budget for years.
func (b *Budget) sweep(now time.Time) {
	const window = int64(budgetWindow / time.Second)
	if left := b.expires - now.Unix(); left > 0 && left <= window {
		return
	}
	first := now.Unix()
	for _, list := range []map[string]spending{b.spent, b.granted} {
		maps.DeleteFunc(list, func(_ string, s spending) bool { return s.expired(now) })
		for node, s := range list {
			s.Since = min(s.Since, now.Unix())
			list[node] = s
			first = min(first, s.Since)
		}
	}
	b.expires = first + window
}

// Approve allows additional changes until the given time. It first removes earlier approved changes that have expired.
func (b *Budget) Approve(changes int, now, until time.Time) {
	if now.After(b.until) {
		b.approved = 0
	}
	b.approved, b.until = b.approved+changes, until
}

// MarshalText returns the used part of the budget, without approved changes.
func (b *Budget) MarshalText() ([]byte, error) { return json.Marshal(b.spent) }

// UnmarshalText restores the result of [Budget.MarshalText].
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

// digest returns a short hash of a change, so that the budget of a large fleet fits into an annotation.
func digest(change string) string {
	sum := sha256.Sum256([]byte(change))
	return hex.EncodeToString(sum[:8])
}
