package blindness

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Table collects the results of plays. It is safe for concurrent use.
type Table struct {
	mu    sync.Mutex
	plays int
	// spells is the number of outages of each kind. broken is the number of outages in plays that violated a rule.
	spells, broken map[string]int
	failed         map[string][]uint64 // seeds by violated rule
	bounded        bool
	unmounted      bool
	slack          time.Duration
}

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{spells: make(map[string]int), broken: make(map[string]int), failed: make(map[string][]uint64)}
}

// Add counts a play and its violations.
func (t *Table) Add(p *Play, found []Violation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.plays++
	t.bounded = t.bounded || p.Bounded()
	t.unmounted = t.unmounted || !p.Mounted
	t.slack = max(t.slack, p.slack())
	for _, s := range p.Spells {
		name := Kinds[s.Kind].Name
		t.spells[name]++
		if len(found) > 0 {
			t.broken[name]++
		}
	}
	for _, v := range found {
		if seeds := t.failed[v.Rule]; !slices.Contains(seeds, p.Seed) {
			t.failed[v.Rule] = append(seeds, p.Seed)
		}
	}
}

func (t *Table) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-22s %6s  %s\n", "spell", "times", "in failed schedules")
	for _, name := range slices.Sorted(maps.Keys(t.spells)) {
		fmt.Fprintf(&b, "%-22s %6d  %d\n", name, t.spells[name], t.broken[name])
	}
	fmt.Fprintf(&b, "\n%-22s %6s  %s\n", "rule", "failed", "seeds")
	for _, rule := range Rules {
		seeds := t.failed[rule]
		slices.Sort(seeds)
		text := strings.Trim(fmt.Sprint(seeds), "[]")
		if rule == ruleBound && !t.bounded {
			text = "not checked: no page has " + uncountedBound
		}
		fmt.Fprintf(&b, "%-22s %6d  %s\n", rule, len(seeds), text)
	}
	if t.unmounted {
		b.WriteString("\nspells of the state directory had no effect, because mounting it requires root\n")
	}
	fmt.Fprintf(&b, "\n%d schedules; the machine was late by at most %v\n", t.plays, t.slack.Round(10*time.Millisecond))
	return b.String()
}

// String describes a play: GPUs, owners, outages, and the values on the last page.
func (p *Play) String() string {
	var b strings.Builder
	for g, d := range p.GPUs {
		fmt.Fprintf(&b, "  GPU %d: floor %d W, replicas %d, jobs %v\n", g, d.Floor, d.Replicas, d.Jobs)
	}
	last := new(Shot)
	if len(p.Shots) > 0 {
		last = &p.Shots[len(p.Shots)-1]
	}
	for i := range p.Owners {
		o := &p.Owners[i]
		fmt.Fprintf(&b, "  %-4s GPU %d %6.1f to %6.1f s, holds %-5v context %-5v %3d W at %2d %%: held %v, active %v, %d mJ, exclusive %d mJ\n",
			o.Name, o.GPU, o.From.Seconds(), o.Until.Seconds(), o.Holds, o.Context, o.Watts, o.Percent,
			last.held(o), last.active(o), last.charged(o, containerEnergy, unitEnergy, ""), last.charged(o, containerEnergy, unitEnergy, "exclusive"))
	}
	for _, s := range p.blind {
		by := s.by
		if by == "" {
			by = "exporter down"
		}
		fmt.Fprintf(&b, "  %-18s GPU %2d %6.1f to %6.1f s\n", by, s.gpu, s.from.Seconds(), s.to.Seconds())
	}
	for g, d := range p.GPUs {
		fmt.Fprintf(&b, "  GPU %d: %d mJ", g, last.sum(Series{Name: gpuEnergy, UUID: d.UUID}))
		for _, reason := range []string{"gap", "host", "idle", "unknown", "unmapped"} {
			fmt.Fprintf(&b, ", %s %d", reason, last.sum(Series{Name: unattributedEnergy, UUID: d.UUID, Split: reason}))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "  slack %v\n", p.slack())
	return b.String()
}
