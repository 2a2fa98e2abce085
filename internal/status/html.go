package status

import (
	"cmp"
	_ "embed"
	"html/template"
	"io"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

//go:embed page.html
var pageHTML string

// A Link is a link at the end of the page. The URL is relative, so that it also works behind a
// proxy with another path.
type Link struct{ Path, Text, About string }

var pageTemplate = framed(pageHTML, template.FuncMap{"or": or, "printable": labelvalue.Printable})

// HTML writes the page as HTML in UTF-8.
func HTML(w io.Writer, p *Page, version string, links []Link) error {
	v := view{
		Page: p, Title: p.title(), Version: version, Links: links, Terms: terms(), Unit: unitFor(*p),
	}
	for i := range p.GPUs {
		v.Cards = append(v.Cards, newCard(p, &p.GPUs[i], v.Unit))
	}
	return pageTemplate.Execute(w, v)
}

type view struct {
	*Page
	Title, Version string
	Links          []Link
	Cards          []card
	Terms          []term
	Unit           unit
}

type card struct {
	*GPU
	Title, Class  string
	Facts         []fact
	Owners, Ended []owner
	EndedSum      string
	Unattributed  []owner
	Bar           []segment
	Age           string
	Total, Span   string
	NoEnergy      string
}

// fact is a name and a value on the page. Kind is a class in the style sheet.
type fact struct{ Name, Value, Kind string }

func newCard(p *Page, g *GPU, u unit) card {
	c := card{GPU: g, Title: g.title(), Class: class(g), Facts: facts(p, g)}
	if c.Age = g.answered(); g.Answers {
		c.Age = "read " + g.LastAnswer()
	}
	c.addOwners(g, u)
	e := g.Energy
	if e == nil {
		c.NoEnergy = p.NoEnergy(g)
		return c
	}
	c.Total, c.Span = u.amount(e.Total), e.span()
	if e.Total >= 0.01*joulesPerKWh {
		c.Total += " (" + kilowattHours(e.Total) + ")"
	}
	return c
}

// class returns the class of a GPU in the style sheet. A healthy GPU has no class. The page also contains a text with
// the same meaning as the class.
func class(g *GPU) string {
	switch {
	case !g.Present:
		return "lost"
	case !g.Answers:
		return "silent"
	case g.trouble() != "" || g.stray() != "":
		return "trouble"
	}
	return ""
}

func facts(p *Page, g *GPU) []fact {
	serial := func(name, value string) fact {
		if value == "" {
			return fact{name, "not reported", "quiet"}
		}
		return fact{name, labelvalue.Printable(value), "serial"}
	}
	out := []fact{serial("Serial", g.Serial)}
	add := func(name, value string) { out = append(out, fact{name, value, ""}) }
	if others := p.onBoardOf(g); others != "" {
		add("Same board", others)
	}
	out = append(out, serial("Chassis", g.ChassisSerial))
	if position := g.Position(); position != "" {
		add("Position", position)
	}
	out = append(out, fact{"PCI address", or(g.PCIBusID), "id"}, fact{"UUID", or(g.UUID), "id"})
	if g.PowerWatts != nil {
		power := watts(g.PowerWatts)
		if g.PowerLimitWatts != nil {
			power += " of " + watts(g.PowerLimitWatts)
		}
		add("Power", power)
	}
	for _, f := range []fact{{"Busy", g.busy(), ""}, {"Memory", g.memory(), ""}, {"Temperature", g.temperature(), ""}} {
		if f.Value != "" {
			out = append(out, f)
		}
	}
	switch {
	case g.Errors() != "":
		out = append(out, fact{"Errors", g.Errors(), "warn"})
	case g.XIDErrors != nil && g.Answers:
		add("Errors", "no XID errors since boot")
	}
	switch rows := g.Rows(); rows {
	case "":
	case rowsGood:
		add("Memory rows", rows)
	default:
		out = append(out, fact{"Memory rows", rows, "warn"})
	}
	switch {
	case g.Uncorrectable() != "":
		out = append(out, fact{"RAS errors", g.RAS(), "warn"})
	case len(g.RASErrors) > 0 && g.Answers:
		add("RAS errors", cmp.Or(g.RAS(), "none since the driver was loaded"))
	}
	if g.MIG != nil {
		add("Instances", g.instances())
	}
	return out
}
