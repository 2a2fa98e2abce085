package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// Problems returns sentences about the problems that need attention. The most severe problem comes
// first.
func (p *Page) Problems() []string {
	var out []string
	if p.old() {
		out = append(out, fmt.Sprintf("The last reading is old: %s, at %s. Restart the exporter if this persists.", ago(p.AgeSeconds), moment(p.Time)))
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
		out = append(out, "The driver's GPU numbers may have changed: identify GPUs by serial number and PCI address.")
	}
	if !p.DriverUp {
		out = append(out, p.noDriver())
	} else if !p.old() {
		each((*GPU).silence)
	}
	if p.PCIGPUs != nil && p.DriverGPUs != nil && *p.PCIGPUs != *p.DriverGPUs {
		out = append(out, fmt.Sprintf("%s on the PCI bus, but the driver lists %d.", plural(*p.PCIGPUs, "GPU is", "GPUs are"), *p.DriverGPUs))
	}
	each((*GPU).trouble)
	each((*GPU).stray)
	for i := range p.Stages {
		if s := &p.Stages[i]; !s.Up {
			why := cmp.Or(labelvalue.Printable(s.Error), "see the log")
			out = append(out, fmt.Sprintf("Stage %s is down (%s): %s. Last success: %s.", labelvalue.Printable(s.Name), s.About(), why, s.LastSuccessAgo()))
		}
	}
	return out
}

func (p *Page) noDriver() string {
	text := "The driver does not respond, and no GPU was found before."
	if len(p.GPUs) > 0 {
		text = "The driver does not respond: GPUs are shown as of the last reading."
	}
	if p.PCIGPUs != nil {
		text += " " + plural(*p.PCIGPUs, "GPU is", "GPUs are") + " on the PCI bus."
	}
	return text
}

func (g *GPU) loss() string {
	if g.Present {
		return ""
	}
	return fmt.Sprintf("GPU LOST: %s (%s, %s).", g.Name(), g.answered(), cmp.Or(g.Errors(), "no known errors"))
}

func (g *GPU) silence() string {
	if !g.Present || g.Answers {
		return ""
	}
	return fmt.Sprintf("GPU %s does not respond: %s (%s).", g.Number(), g.Name(), g.answered())
}

func (g *GPU) trouble() string {
	var what []string
	if rows := g.Rows(); rows != "" && rows != rowsGood {
		what = append(what, rows)
	}
	for _, had := range []string{g.Errors(), g.Uncorrectable()} {
		if had != "" {
			what = append(what, had)
		}
	}
	if !g.Present || what == nil {
		return ""
	}
	return fmt.Sprintf("GPU %s has faults: %s. %s.", g.Number(), g.Name(), strings.Join(what, ". "))
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
	return fmt.Sprintf("GPU %s is used without a known allocation by %s.", g.Number(), strings.Join(pods, ", "))
}

func (p *Page) old() bool { return p.AgeSeconds > stale.Seconds() }
