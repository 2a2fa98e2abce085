package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problems lists what somebody should look at, the worst first. Each is a sentence.
func (p *Page) Problems() []string {
	var out []string
	if p.old() {
		out = append(out, fmt.Sprintf("This state is old: it was read %s, at %s.", ago(p.AgeSeconds), moment(p.Time)))
	}
	each := func(problem func(*GPU) string) {
		for i := range p.GPUs {
			if s := problem(&p.GPUs[i]); s != "" {
				out = append(out, s)
			}
		}
	}
	each((*GPU).loss)
	if p.Lost() > 0 {
		out = append(out, "The driver's numbers of GPUs may have moved since: go by serial number and PCI address.")
	}
	if !p.DriverUp {
		out = append(out, p.noDriver())
	} else if !p.old() {
		each((*GPU).silence)
	}
	if p.PCIGPUs != nil && p.DriverGPUs != nil && *p.PCIGPUs != *p.DriverGPUs {
		out = append(out, fmt.Sprintf("%s on the PCI bus, but the driver answers for %d.", plural(*p.PCIGPUs, "GPU is", "GPUs are"), *p.DriverGPUs))
	}
	each((*GPU).trouble)
	each((*GPU).stray)
	for i := range p.Stages {
		if s := &p.Stages[i]; !s.Up {
			why := cmp.Or(printable(s.Error), "the log says why")
			out = append(out, fmt.Sprintf("Stage %s is down (%s): %s. Last success: %s.", printable(s.Name), s.About(), why, s.LastSuccessAgo()))
		}
	}
	return out
}

func (p *Page) noDriver() string {
	said := "The driver does not answer, and no GPU is known from before."
	if len(p.GPUs) > 0 {
		said = "The driver does not answer: what is said of GPUs was true before."
	}
	if p.PCIGPUs != nil {
		said += " " + plural(*p.PCIGPUs, "GPU is", "GPUs are") + " on the PCI bus."
	}
	return said
}

func (g *GPU) loss() string {
	if g.Present {
		return ""
	}
	return fmt.Sprintf("GPU LOST: %s. It %s, and had %s.", g.Name(), g.answered(), cmp.Or(g.Errors(), "no XID error that is known"))
}

func (g *GPU) silence() string {
	if !g.Present || g.Answers {
		return ""
	}
	return fmt.Sprintf("No answer from GPU %s: %s. It %s.", g.Number(), g.Name(), g.answered())
}

// trouble is what a GPU says of itself.
func (g *GPU) trouble() string {
	var what []string
	if rows := g.Rows(); rows != "" && rows != rowsGood {
		what = append(what, rows)
	}
	if had := g.Errors(); had != "" {
		what = append(what, had)
	}
	if !g.Present || what == nil {
		return ""
	}
	return fmt.Sprintf("Trouble with GPU %s: %s. %s.", g.Number(), g.Name(), strings.Join(what, ". "))
}

func (g *GPU) stray() string {
	var pods []string
	for i := range g.Containers {
		if c := &g.Containers[i]; c.stray() && !slices.Contains(pods, c.PodName()) {
			pods = append(pods, c.PodName())
		}
	}
	if pods == nil {
		return ""
	}
	return fmt.Sprintf("On GPU %s without an allocation that the kubelet tells of: %s.", g.Number(), strings.Join(pods, ", "))
}

// old reports whether the exporter stands still.
func (p *Page) old() bool { return p.AgeSeconds > stale.Seconds() }
