package status

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

const maxOwners = 6

// owner is a row in the table of owners and a segment in the bar above the table. The row describes a container, or a
// reason for which energy is charged to no container.
type owner struct {
	Name, Container, How string
	// Stray is set if the owner uses the GPU without an allocation.
	Stray         bool
	Energy, Share string
	// Why is a link to the explanation of the charge. It may be empty.
	Why string
	// Class is the CSS class with the owner's colour, or empty if the owner has no energy.
	Class string
	// amounts contains the owner's energy in joules by fill pattern. The name of the pattern is empty for a plain
	// colour.
	amounts []patterned
}

type patterned struct {
	pattern string
	joules  float64
}

func (o *owner) joules() (sum float64) {
	for _, a := range o.amounts {
		sum += a.joules
	}
	return sum
}

// segment is a part of the bar. X and Width are in percent of the bar's width.
type segment struct{ X, Width, Class, Pattern string }

func containerRow(c Container, how, why string) owner {
	o := owner{Name: c.Who(), Container: c.part(), How: how, Why: why, Stray: c.stray()}
	if e := c.Energy; e != nil {
		o.amounts = []patterned{{"", e.Exclusive}, {"shared", e.Shared}, {"allocated", e.Allocated}}
		if methods := e.methods(); methods != "" {
			o.How = strings.TrimPrefix(o.How+"; "+methods, "; ")
		}
	}
	return o
}

func (c Charged) methods() string {
	var out []string
	amounts := []float64{c.Exclusive, c.Shared, c.Allocated}
	for m, joules := range amounts {
		switch name := gpu.Method(m).String(); {
		case joules == 0:
		case joules == c.Sum():
			return name
		default:
			out = append(out, name+" "+percent(joules, c.Sum()))
		}
	}
	return strings.Join(out, ", ")
}

func (e *Energy) unattributedRows() (rows []owner) {
	for r := range gpu.NumReasons {
		if joules := e.Unattributed[r.String()]; joules > 0 {
			rows = append(rows, owner{Name: "Unattributed", How: r.String(), Class: "reason-" + r.String(), amounts: []patterned{{"", joules}}})
		}
	}
	if e.Retired > 0 {
		rows = append(rows, owner{Name: "Retired", How: "owners that are no longer shown", Class: "reason-retired", amounts: []patterned{{"retired", e.Retired}}})
	}
	return rows
}

func byEnergy(a, b owner) int { return cmp.Compare(b.joules(), a.joules()) }

// paint assigns different colours to the containers with the most energy, and a common colour to
// all others.
func paint(containers []*owner) []*owner {
	charged := slices.DeleteFunc(slices.Clone(containers), func(o *owner) bool { return o.joules() == 0 })
	slices.SortStableFunc(charged, func(a, b *owner) int { return byEnergy(*a, *b) })
	for i, o := range charged {
		o.Class = "owner-others"
		if i < maxOwners {
			o.Class = "owner-" + strconv.Itoa(i)
		}
	}
	return charged
}

// bar returns the segments of the bar, in the order of the rows. It combines rows with the same colour into one segment
// per pattern.
func bar(rows []*owner, total float64) (segments []segment) {
	x := 0.0
	add := func(class, pattern string, joules float64) {
		if joules == 0 {
			return
		}
		width := 100 * joules / total
		segments = append(segments, segment{decimals(x), decimals(width), class, pattern})
		x += width
	}
	var others [3]float64
	for i, o := range rows {
		for k, a := range o.amounts {
			if o.Class == "owner-others" {
				others[k] += a.joules
				continue
			}
			add(o.Class, a.pattern, a.joules)
		}
		if o.Class == "owner-others" && (i+1 == len(rows) || rows[i+1].Class != o.Class) {
			for m, joules := range others {
				add(o.Class, []string{"", "shared", "allocated"}[m], joules)
			}
		}
	}
	return segments
}

func decimals(percent float64) string { return strconv.FormatFloat(percent, 'f', 3, 64) }

func (c card) HasRows() bool { return len(c.Owners)+len(c.Unattributed) > 0 }

func (c *card) addOwners(g *GPU, u unit) {
	holders, ended := g.holders()
	for _, h := range holders {
		c.Owners = append(c.Owners, containerRow(h, g.How(h), g.explainLink(h)))
	}
	for _, h := range ended {
		c.Ended = append(c.Ended, containerRow(h, formerly(h), g.explainLink(h)))
	}
	slices.SortStableFunc(c.Owners, byEnergy)
	slices.SortStableFunc(c.Ended, byEnergy)
	if sum, n := total(ended); n > 0 {
		c.EndedSum = fmt.Sprintf("%s ended: %s", several(ended, n), u.amount(sum.Sum()))
	}
	rows := paint(slices.Concat(pointers(c.Owners), pointers(c.Ended)))
	if g.Energy != nil {
		c.Unattributed = g.Energy.unattributedRows()
		rows = append(rows, pointers(c.Unattributed)...)
		c.Bar = bar(rows, g.Energy.Total)
	}
	for _, o := range slices.Concat(pointers(c.Owners), pointers(c.Ended), pointers(c.Unattributed)) {
		o.Energy, o.Share = none, ""
		if o.amounts != nil {
			o.Energy = u.format(o.joules())
		}
		if g.Energy != nil && o.joules() > 0 {
			o.Share = percent(o.joules(), g.Energy.Total)
		}
	}
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}
