package status

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strconv"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

// SecurityPolicy is the page's Content-Security-Policy: its own style sheet, and nothing
// else from anywhere, scripts included.
var SecurityPolicy = fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", hash(pageCSS))

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// A Link is shown at the end of the page. It is relative: the page may be seen through a
// proxy that has it under another path.
type Link struct{ Path, Text, About string }

var tmpl = template.Must(template.New("page").Funcs(template.FuncMap{
	"or": or, "printable": printable,
}).Parse(pageHTML))

// HTML writes the page for people, in UTF-8.
func HTML(w io.Writer, p *Page, version string, links []Link) error {
	v := view{
		Page: p, Title: p.title(), Version: version, Links: links, Words: words(), Unit: unitFor(*p),
		CSS: template.CSS(pageCSS), //nolint:gosec // the file page.css
	}
	for i := range p.GPUs {
		v.Cards = append(v.Cards, newCard(p, &p.GPUs[i], v.Unit))
	}
	return tmpl.Execute(w, v)
}

// view is what the template shows.
type view struct {
	*Page
	Title, Version string
	Links          []Link
	Cards          []card
	Words          []word
	Unit           unit
	CSS            template.CSS
}

// card is one GPU.
type card struct {
	*GPU
	Title, Class   string
	Facts          []fact
	Holders, Ended []holder
	EndedSum       string
	Bar            []segment
	Energy         []amount
	Asked          string
	Total, Span    string
	NoEnergy       string
}

// fact is a line of a card. Its kind is a class of the style sheet.
type fact struct{ Name, Value, Kind string }

// holder is a row of the table of containers. How may be empty. A stray was not given what
// it uses.
type holder struct {
	Pod, Container, How, Energy string
	Stray                       bool
}

// segment is a part of a bar, in percent of its length.
type segment struct{ Name, X, Width string }

// amount is a row of the table below a bar.
type amount struct{ Name, Energy, Share, Reasons string }

func newCard(p *Page, g *GPU, u unit) card {
	c := card{GPU: g, Title: g.title(), Class: class(g), Facts: facts(p, g)}
	if c.Asked = g.answered(); g.Answers {
		c.Asked = "read " + g.LastAnswer()
	}
	holders, ended := g.holders()
	for _, h := range holders {
		c.Holders = append(c.Holders, newHolder(h, g.How(h), u))
	}
	for _, h := range ended {
		c.Ended = append(c.Ended, newHolder(h, formerly(h), u))
	}
	if sum, n := total(ended); n > 0 {
		c.EndedSum = fmt.Sprintf("%s no longer on it: %s", plural(n, "container", "containers"), u.amount(sum.Sum()))
	}
	e := g.Energy
	if e == nil {
		c.NoEnergy = p.NoEnergy(g)
		return c
	}
	c.Total, c.Span = u.amount(e.Total), e.span()
	if e.Total >= 0.01*joulesPerKWh {
		c.Total += " (" + kilowattHours(e.Total) + ")"
	}
	x := 0.0
	for _, part := range e.Parts() {
		if part.Joules == 0 {
			continue
		}
		a := amount{part.Name, u.format(part.Joules), percent(part.Joules, e.Total), ""}
		if part.Name == "unattributed" {
			a.Reasons = e.reasons(u)
		}
		c.Energy = append(c.Energy, a)
		width := 100 * part.Joules / e.Total
		c.Bar = append(c.Bar, segment{part.Name, strconv.FormatFloat(x, 'f', 3, 64), strconv.FormatFloat(width, 'f', 3, 64)})
		x += width
	}
	return c
}

// class is how the card stands out, or nothing. What it means is said in words as well.
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

func newHolder(c Container, how string, u unit) holder {
	h := holder{Pod: c.PodName(), Container: or(c.Container), How: how, Energy: none, Stray: c.stray()}
	if c.Energy != nil {
		h.Energy = u.format(c.Energy.Sum())
	}
	return h
}

func facts(p *Page, g *GPU) []fact {
	serial := func(name, value string) fact {
		if value == "" {
			return fact{name, "the GPU does not say", "quiet"}
		}
		return fact{name, printable(value), "serial"}
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
		add("Errors", "no XID error in this boot")
	}
	switch rows := g.Rows(); rows {
	case "":
	case rowsGood:
		add("Memory rows", rows)
	default:
		out = append(out, fact{"Memory rows", rows, "warn"})
	}
	if g.MIG != nil {
		add("MIG instances", g.instances())
	}
	return out
}
