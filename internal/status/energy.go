package status

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// A Part is a part of a GPU's energy, such as the unattributed energy.
type Part struct {
	// Name is the label value and the CSS class, and About describes its meaning.
	Name, About string
	Joules      float64
}

// Parts returns the parts that add up to the total energy. The parts that are most certain come first.
func (e *Energy) Parts() []Part {
	var unattributed float64
	for _, joules := range e.Unattributed {
		unattributed += joules
	}
	return []Part{
		{"exclusive", "measured: no other owner held or used the GPU", e.Exclusive},
		{"shared", "divided among several owners by measured activity", e.Shared},
		{"allocated", "charged for holding the GPU", e.Allocated},
		{"unattributed", "charged to no container", unattributed},
		{"retired", "charged to owners that ended and are no longer shown", e.Retired},
	}
}

type term struct{ Name, About, Pattern string }

func terms() []term {
	var out []term
	for _, part := range new(Energy).Parts() {
		pattern := ""
		if slices.Contains([]string{"shared", "allocated", "retired"}, part.Name) {
			pattern = part.Name
		}
		out = append(out, term{part.Name, part.About, pattern})
	}
	for r := range gpu.NumReasons {
		out = append(out, term{Name: r.String(), About: [gpu.NumReasons]string{
			gpu.Idle:     "no owner held or used the GPU",
			gpu.Host:     "used by a process of the host, outside all pods",
			gpu.Unmapped: "used by a process with an unknown container",
			gpu.Unknown:  "held by a pod that may have ended, or the allocation is unknown",
			gpu.Gap:      "not measured for a while, and the owners before and after this time differ",
		}[r]})
	}
	return out
}

// Charge names the hardware that used the energy.
func (g *GPU) Charge() string {
	if g.wholeModule() {
		return "the whole module"
	}
	return "the GPU"
}

// Remark returns an explanation if the GPU's counter covers a whole module. Otherwise it returns
// an empty text.
func (g *GPU) Remark() string {
	switch {
	case g.wholeModule():
		return "The counter covers the whole module, which may include a CPU. The driver does not report the GPU's part."
	case g.EnergySource == gpu.EnergyDivided:
		return "The counter covers the whole module; this is the GPU's part."
	}
	return ""
}

// wholeModule reports whether the GPU's energy includes the energy of the rest of the module.
func (g *GPU) wholeModule() bool {
	return g.EnergyScope == gpu.ScopeModule && g.EnergySource != gpu.EnergyDivided
}

// NoEnergy returns the reason why a GPU has no energy.
func (p *Page) NoEnergy(g *GPU) string {
	stateDown := slices.ContainsFunc(p.Stages, func(s Stage) bool { return s.Name == string(stage.State) && !s.Up })
	switch {
	case stateDown:
		return "No energy is charged: the stage state is down."
	case !g.Present:
		return "No energy is charged any longer, because the GPU was lost."
	case g.EnergySource == gpu.EnergyNone:
		return "The GPU reports neither energy nor power."
	}
	return "No energy is charged yet."
}

func (e *Energy) span() string {
	from, to := e.From.UTC(), e.To.UTC()
	layout := time.DateTime
	if from.Format(time.DateOnly) == to.Format(time.DateOnly) {
		layout = time.TimeOnly
	}
	return fmt.Sprintf("%s to %s UTC", from.Format(time.DateTime), to.Format(layout))
}
