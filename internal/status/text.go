package status

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// Write prints the page for a terminal.
func Write(w io.Writer, p *Page) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n%s.\n", p.title(), p.Summary(), p.Read())
	if p.Advice != "" {
		fmt.Fprintf(&b, "Advice: %s.\n", labelvalue.Printable(string(p.Advice)))
	}
	for _, advice := range p.Advised() {
		fmt.Fprintf(&b, "%s%s\n", indent, advice)
	}
	if problems := p.Problems(); len(problems) > 0 {
		b.WriteString("\n")
		for _, problem := range problems {
			fmt.Fprintf(&b, "! %s\n", problem)
		}
	}
	if len(p.GPUs) > 0 {
		b.WriteString("\n")
		gpuTable(p).write(&b)
		b.WriteString("\n")
		energyTable(p).write(&b)
	}
	b.WriteString("\n")
	stageTable(p).write(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// gpuTable returns a table with a row for each GPU. Lines after the row contain details that would make the row longer
// than 80 columns.
func gpuTable(p *Page) *table {
	t := newTable("GPU", "STATE", "READ", ">POWER", "SERIAL", "PCI ADDRESS")
	for i := range p.GPUs {
		g := &p.GPUs[i]
		t.add(g.Number(), g.State(), g.LastAnswer(), watts(g.PowerWatts), or(g.Serial), or(g.PCIBusID))
		t.note(g.what())
		if load := g.load(); load != "" {
			t.note(load)
		}
		if errors := g.RAS(); errors != "" {
			t.note("RAS errors: " + errors)
		}
		if g.MIG != nil {
			t.note("instances: " + g.profiles())
		}
		holders, _ := g.holders()
		for _, c := range holders {
			who := strings.TrimSuffix(c.Who()+" "+c.part(), " ")
			if c.Replicas > 0 {
				who = "held by " + who
			}
			t.note(who + ": " + g.How(c))
		}
		if len(holders) == 0 {
			t.note("held by: " + g.NoHolder())
		}
		if others := g.Others(); others != "" {
			t.note(others)
		}
	}
	return t
}

func (g *GPU) what() string {
	parts := []string{or(g.Model)}
	if g.Serial == "" {
		parts = append(parts, "reports no serial number")
	}
	if g.ChassisSerial != "" {
		parts = append(parts, "chassis "+labelvalue.Printable(g.ChassisSerial))
	}
	if position := g.Position(); position != "" {
		parts = append(parts, position)
	}
	return strings.Join(parts, ", ")
}

func (g *GPU) load() string {
	var parts []string
	for _, part := range []struct{ name, value string }{{"busy ", g.busy()}, {"memory ", g.memory()}, {"", g.temperature()}} {
		if part.value != "" {
			parts = append(parts, part.name+part.value)
		}
	}
	return strings.Join(parts, ", ")
}

// profiles returns the number of MIG instances by profile, because a list of all instances would not fit on a line.
func (g *GPU) profiles() string {
	counts := make(map[string]int)
	for _, i := range *g.MIG {
		counts[i.Profile]++
	}
	var parts []string
	for _, profile := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d of %s", counts[profile], or(profile)))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// energyTable returns a table with a row for each GPU. The rows after it contain the parts of the GPU's energy.
func energyTable(p *Page) *table {
	u := unitFor(*p)
	t := newTable("ENERGY IN "+u.Name, ">TOTAL", ">EXCLUSIVE", ">SHARED", ">ALLOCATED")
	for i := range p.GPUs {
		g := &p.GPUs[i]
		name := g.title()
		if g.Serial != "" {
			name += ", serial " + labelvalue.Printable(g.Serial)
		}
		e := g.Energy
		if e == nil {
			t.add(name, none, none, none, none)
			t.note(p.NoEnergy(g))
			continue
		}
		t.charged(u, name, e.Total, e.Charged)
		holders, ended := g.holders()
		for _, c := range holders {
			if c.Energy != nil {
				t.charged(u, strings.TrimSuffix(indent+strings.TrimSuffix(c.PodName()+" "+c.part(), " ")+", "+formerly(c), ", "), c.Energy.Sum(), *c.Energy)
			}
		}
		if sum, n := total(ended); n > 0 {
			t.charged(u, indent+several(ended, n)+" ended", sum.Sum(), sum)
		}
		t.uncharged(u, e)
		if caution := g.Remark(); caution != "" {
			t.note(caution)
		}
		t.note("counted " + e.span())
	}
	return t
}

func (t *table) charged(u unit, who string, total float64, c Charged) {
	t.add(who, u.format(total), u.format(c.Exclusive), u.format(c.Shared), u.format(c.Allocated))
}

func (t *table) uncharged(u unit, e *Energy) {
	for r := range gpu.NumReasons {
		if joules := e.Unattributed[r.String()]; joules > 0 {
			t.add(indent+"unattributed: "+r.String(), u.format(joules), "", "", "")
		}
	}
	if e.Retired > 0 {
		t.add(indent+"retired", u.format(e.Retired), "", "", "")
	}
}

func total(containers []Container) (sum Charged, n int) {
	for _, c := range containers {
		if c.Energy != nil {
			sum.Exclusive += c.Energy.Exclusive
			sum.Shared += c.Energy.Shared
			sum.Allocated += c.Energy.Allocated
			n++
		}
	}
	return sum, n
}

func stageTable(p *Page) *table {
	t := newTable("STAGE", "STATE", "SUCCEEDED", ">FAILURES", "MEANING")
	for i := range p.Stages {
		s := &p.Stages[i]
		t.add(labelvalue.Printable(s.Name), s.State(), s.LastSuccessAgo(), strconv.FormatUint(s.Failures, 10), s.About())
	}
	return t
}

// A table is text that is aligned in columns. A column with a heading that begins with > contains
// numbers and is aligned to the right.
type table struct {
	right []bool
	rows  [][]string
}

func newTable(headings ...string) *table {
	t := &table{}
	for i, h := range headings {
		name, right := strings.CutPrefix(h, ">")
		t.right, headings[i] = append(t.right, right), name
	}
	t.add(headings...)
	return t
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) note(s string) { t.add(indent + s) }

const indent = "  "

// widest is the length of the longest cell that can widen its column. Longer cells do not widen a column, because
// one long name would move all numbers off the screen.
const widest = 42

func (t *table) write(b *strings.Builder) {
	widths := make([]int, len(t.right))
	for _, row := range t.rows {
		for i, cell := range row {
			if n := utf8.RuneCountInString(cell); len(row) > 1 && n <= widest {
				widths[i] = max(widths[i], n)
			}
		}
	}
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			width := widths[i]
			if !t.right[i] {
				width = -width // pads the cell on the right
			}
			fmt.Fprintf(&line, "%*s  ", width, cell)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}
