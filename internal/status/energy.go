package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// A Part is one of the amounts that a GPU's energy is made of.
type Part struct {
	// Name is the word of the metrics page and of the style sheet, About what it means.
	Name, About string
	Joules      float64
}

// Parts returns the parts of the energy, from the most to the least certain. Together
// they are the total.
func (e *Energy) Parts() []Part {
	var unattributed float64
	for _, joules := range e.Unattributed {
		unattributed += joules
	}
	return []Part{
		{"exclusive", "measured: no other owner held or used the GPU", e.Exclusive},
		{"shared", "split among several by their measured activity", e.Shared},
		{"allocated", "charged for holding the GPU", e.Allocated},
		{"unattributed", "charged to no container", unattributed},
		{"retired", "was charged to containers that ended and are no longer shown", e.Retired},
	}
}

// word is a word of the page, and what it means.
type word struct{ Name, About string }

// words explains how energy is charged, and why some is charged to nobody.
func words() []word {
	var out []word
	for _, part := range new(Energy).Parts() {
		out = append(out, word{part.Name, part.About})
	}
	for r := range gpu.NumReasons {
		out = append(out, word{r.String(), [gpu.NumReasons]string{
			gpu.Idle:     "nobody held or used the GPU",
			gpu.Host:     "used by a process of the host, outside all pods",
			gpu.Unmapped: "used by a process whose container could not be named",
			gpu.Unknown:  "held by a pod that is not known to live, or not known whether it is held",
			gpu.Gap:      "nobody was looking, and before and after differ",
		}[r]})
	}
	return out
}

// reasons says what the unattributed energy is made of.
func (e *Energy) reasons(u unit) string {
	var parts []string
	for r := range gpu.NumReasons {
		if joules := e.Unattributed[r.String()]; joules > 0 {
			parts = append(parts, r.String()+" "+u.amount(joules))
		}
	}
	return strings.Join(parts, ", ")
}

// Charge is what the energy is of.
func (g *GPU) Charge() string {
	if g.wholeModule() {
		return "the whole module"
	}
	return "the GPU"
}

// Remark explains the energy of a GPU whose counter covers a module; empty for other GPUs.
func (g *GPU) Remark() string {
	switch {
	case g.wholeModule():
		return "The counter covers the whole module, which may include a CPU. The driver does not report the GPU's part."
	case g.EnergySource == gpu.EnergyDivided:
		return "The counter covers the whole module; this is the GPU's part."
	}
	return ""
}

// wholeModule reports whether the energy includes the rest of the module.
func (g *GPU) wholeModule() bool {
	return g.EnergyScope == gpu.ScopeModule && g.EnergySource != gpu.EnergyDivided
}

// NoEnergy says why nothing is charged for a GPU.
func (p *Page) NoEnergy(g *GPU) string {
	stateDown := slices.ContainsFunc(p.Stages, func(s Stage) bool { return s.Name == string(stage.State) && !s.Up })
	switch {
	case stateDown:
		return "Nothing is charged here: the stage state is down."
	case !g.Present:
		return "Its book was closed some time after it was lost."
	case g.EnergySource == gpu.EnergyNone:
		return "It reports neither energy nor power."
	}
	return "Nothing was charged yet."
}

// span says what time a book covers.
func (e *Energy) span() string {
	from, to := e.From.UTC(), e.To.UTC()
	layout := time.DateTime
	if from.Format(time.DateOnly) == to.Format(time.DateOnly) {
		layout = time.TimeOnly
	}
	return fmt.Sprintf("%s to %s UTC", from.Format(time.DateTime), to.Format(layout))
}
