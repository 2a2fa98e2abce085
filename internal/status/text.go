package status

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// Write prints the page for a terminal.
func Write(w io.Writer, p *Page) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s; %s\n", p.title(), p.Summary(), p.Read())
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

func gpuTable(p *Page) *table {
	t := newTable("GPU", "STATE", "ANSWERED", ">POWER", "MODEL", "SERIAL", "CHASSIS", ">SLOT", ">TRAY", "PCI ADDRESS", "HELD BY")
	for i := range p.GPUs {
		g := &p.GPUs[i]
		row := []string{
			g.Number(), g.State(), g.LastAnswer(), watts(g.PowerWatts), or(g.Model), or(g.Serial),
			or(g.ChassisSerial), number(g.ChassisSlot), number(g.TrayIndex), or(g.PCIBusID),
		}
		holders, _ := g.holders()
		for _, c := range holders {
			t.add(append(row, fmt.Sprintf("%s %s: %s", c.PodName(), or(c.Container), g.How(c)))...)
			row = make([]string, len(row))
		}
		if len(holders) == 0 {
			t.add(append(row, g.NoHolder())...)
			row = make([]string, len(row))
		}
		if others := g.Others(); others != "" {
			t.add(append(row, others)...)
		}
	}
	return t
}

// energyTable has a row for each GPU and for each container that holds it.
func energyTable(p *Page) *table {
	u := unitFor(*p)
	t := newTable("GPU", "SERIAL", "ENERGY IN "+u.Name+" OF", ">TOTAL", ">EXCLUSIVE", ">SHARED", ">ALLOCATED", ">UNATTRIBUTED", ">RETIRED", "COUNTED")
	for i := range p.GPUs {
		g := &p.GPUs[i]
		if g.Energy == nil {
			t.add(g.Number(), or(g.Serial), g.Charge(), none, none, none, none, none, none, p.NoEnergy(g))
			continue
		}
		row := []string{g.Number(), or(g.Serial), g.Charge(), u.format(g.Energy.Total)}
		for _, part := range g.Energy.Parts() {
			row = append(row, u.format(part.Joules))
		}
		t.add(append(row, g.Energy.span())...)
		holders, ended := g.holders()
		for _, c := range holders {
			if c.Energy != nil {
				t.add(charged(u, c.PodName()+" "+or(c.Container), *c.Energy)...)
			}
		}
		if sum, n := total(ended); n > 0 {
			t.add(charged(u, plural(n, "container", "containers")+" no longer on it", sum)...)
		}
	}
	return t
}

func charged(u unit, who string, c Charged) []string {
	return []string{"", "", "  " + who, u.format(c.Sum()), u.format(c.Exclusive), u.format(c.Shared), u.format(c.Allocated)}
}

// total adds up the accounts of containers.
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
	t := newTable("STAGE", "STATE", "LAST SUCCESS", ">FAILURES", "WHAT IT IS")
	for i := range p.Stages {
		s := &p.Stages[i]
		t.add(printable(s.Name), s.State(), s.LastSuccessAgo(), strconv.FormatUint(s.Failures, 10), s.About())
	}
	return t
}

func number(n *int) string {
	if n == nil {
		return none
	}
	return strconv.Itoa(*n)
}

// A table is aligned in columns. Columns whose heading begins with > hold numbers and
// are aligned to the right.
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

func (t *table) write(b *strings.Builder) {
	widths := make([]int, len(t.right))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, row := range t.rows {
		for i, cell := range row {
			if t.right[i] {
				row[i] = fmt.Sprintf("%*s", widths[i], cell)
			}
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // a strings.Builder takes everything
}
