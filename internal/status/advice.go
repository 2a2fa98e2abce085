package status

import (
	"fmt"
	"strings"

	"github.com/gpuledger/gpuledger/internal/health"
	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// Advised returns a line for the node, and for each GPU, if its advice is not ok. The line contains the evidence. The
// lines with the worst advice come first.
func (p *Page) Advised() []string {
	byAdvice := make(map[health.Advice][]string)
	add := func(v health.Advice, what string, evidence []health.Evidence) {
		byAdvice[v] = append(byAdvice[v], fmt.Sprintf("%s: %s: %s.", strings.ToUpper(labelvalue.Printable(string(v))), what, findings(evidence)))
	}
	for i := range p.GPUs {
		if g := &p.GPUs[i]; len(g.Evidence) > 0 {
			add(g.Advice, g.title()+", "+g.Name(), g.Evidence)
		}
	}
	if len(p.Evidence) > 0 {
		v := health.OK
		for _, e := range p.Evidence {
			v = health.Worse(v, e.Advice)
		}
		add(v, "node", p.Evidence)
	}
	var out []string
	for _, v := range []health.Advice{health.Return, health.Reset, health.Watch} {
		out = append(out, byAdvice[v]...)
	}
	return out
}

func findings(evidence []health.Evidence) string {
	var list []string
	for _, e := range evidence {
		s := labelvalue.Printable(e.Code + " (" + e.Meaning)
		if e.Detail != "" {
			s += ": " + labelvalue.Printable(e.Detail)
		}
		s += ")"
		if e.Count > 0 {
			s += ", " + plural(int(e.Count), "time", "times")
		}
		if e.Last != nil {
			s += ", last at " + moment(*e.Last)
		}
		if e.Reset != nil {
			s += ", reset at " + moment(*e.Reset)
		}
		list = append(list, s)
	}
	return strings.Join(list, "; ")
}
