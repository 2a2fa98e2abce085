package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// The words for how a GPU is.
const (
	statePresent = "present"
	stateSilent  = "no answer"
	stateLost    = "LOST"
)

// State says in a word how the GPU is.
func (g *GPU) State() string {
	switch {
	case !g.Present:
		return stateLost
	case !g.Answers:
		return stateSilent
	}
	return statePresent
}

// Number is the driver's number of the GPU.
func (g *GPU) Number() string {
	if g.Index == nil {
		return none
	}
	return fmt.Sprint(*g.Index)
}

// title is the heading of the GPU.
func (g *GPU) title() string {
	if !g.Present {
		return "Lost GPU"
	}
	return "GPU " + g.Number()
}

// Name names the GPU in a sentence by what does not shift: its board and its place.
func (g *GPU) Name() string {
	serial := "without a serial number"
	if g.Serial != "" {
		serial = "serial " + printable(g.Serial)
	}
	return fmt.Sprintf("%s, %s, at %s", or(g.Model), serial, or(g.PCIBusID))
}

// Position says where in its chassis the GPU sits.
func (g *GPU) Position() string {
	var where []string
	for _, place := range []struct {
		name   string
		number *int
	}{{"slot", g.ChassisSlot}, {"tray", g.TrayIndex}, {"module", g.ModuleID}} {
		if place.number != nil {
			where = append(where, fmt.Sprintf("%s %d", place.name, *place.number))
		}
	}
	return strings.Join(where, ", ")
}

// LastAnswer says when the GPU last answered.
func (g *GPU) LastAnswer() string {
	if g.ReadingAgeSeconds == nil {
		return "never"
	}
	return ago(*g.ReadingAgeSeconds)
}

// answered says in a part of a sentence when the GPU last answered.
func (g *GPU) answered() string {
	if g.ReadingAgeSeconds == nil {
		return "never answered"
	}
	return "last answered " + g.LastAnswer()
}

// busy says for what part of the time the GPU works, or nothing where it does not say.
func (g *GPU) busy() string {
	if g.UtilizationRatio == nil {
		return ""
	}
	return fmt.Sprintf("%.0f %% of the time", 100**g.UtilizationRatio)
}

// memory says how much memory is in use, or nothing.
func (g *GPU) memory() string {
	if g.MemoryUsedBytes == nil || g.MemoryTotalBytes == nil {
		return ""
	}
	const gib = 1 << 30
	return fmt.Sprintf("%.1f of %.1f GiB", float64(*g.MemoryUsedBytes)/gib, float64(*g.MemoryTotalBytes)/gib)
}

// temperature says how warm the GPU is, or nothing.
func (g *GPU) temperature() string {
	if g.TemperatureCelsius == nil {
		return ""
	}
	return fmt.Sprintf("%.0f °C", *g.TemperatureCelsius)
}

// instances lists the MIG instances of a GPU in MIG mode.
func (g *GPU) instances() string {
	var list []string
	for _, i := range *g.MIG {
		list = append(list, printable(i.ID+" ("+i.Profile+")"))
	}
	return cmp.Or(strings.Join(list, ", "), "none")
}

// onBoardOf names the other GPUs on the board of one, or nothing.
func (p *Page) onBoardOf(g *GPU) string {
	var others []string
	for i := range p.GPUs {
		if other := &p.GPUs[i]; other != g && g.Serial != "" && other.Serial == g.Serial {
			others = append(others, other.title())
		}
	}
	return strings.Join(others, ", ")
}

// Errors says what errors the GPU had, or nothing.
func (g *GPU) Errors() string {
	if g.XIDErrors == nil || g.LastXID == nil || g.LastXIDTime == nil {
		return ""
	}
	return fmt.Sprintf("%s in this boot, the last one XID %d at %s",
		plural(int(*g.XIDErrors), "XID error", "XID errors"), *g.LastXID, moment(*g.LastXIDTime))
}

const rowsGood = "no faulty row waits for a spare one"

// Rows says how the GPU's memory fares, or nothing where the GPU does not say.
func (g *GPU) Rows() string {
	switch {
	case g.RowRemapFailed == nil || g.RowRemapPending == nil:
		return ""
	case *g.RowRemapFailed:
		return "A faulty row of its memory could not be replaced: there is no spare one left"
	case *g.RowRemapPending:
		return "A faulty row of its memory waits for a reset of the GPU to be replaced"
	}
	return rowsGood
}

// Others says who else is on the GPU.
func (g *GPU) Others() string {
	var others, on []string
	if n := g.HostProcesses; n > 0 {
		on = append(on, plural(n, "process of the host", "processes of the host"))
	}
	if n := g.UnmappedProcesses; n > 0 {
		on = append(on, plural(n, "process whose container is not known", "processes whose container is not known"))
	}
	if on != nil {
		others = append(others, "on it: "+strings.Join(on, ", "))
	}
	if holders, _ := g.holders(); len(holders) > 0 && g.Present && !g.HoldersKnown {
		others = append(others, "who else is on it is not known")
	}
	return strings.Join(others, "; ")
}

// holders returns the containers that hold or use the GPU, ended the others.
func (g *GPU) holders() (holders, ended []Container) {
	for _, c := range g.Containers {
		if c.Holds {
			holders = append(holders, c)
		} else {
			ended = append(ended, c)
		}
	}
	return holders, ended
}

// NoHolder says what it means that no container is known to hold the GPU.
func (g *GPU) NoHolder() string {
	if g.HoldersKnown {
		return "no container"
	}
	return "not known"
}

// Profile returns the profile of a MIG instance.
func (g *GPU) Profile(instance string) string {
	if g.MIG == nil {
		return ""
	}
	i := slices.IndexFunc(*g.MIG, func(i Instance) bool { return i.ID == instance })
	if i < 0 {
		return ""
	}
	return printable((*g.MIG)[i].Profile)
}

// stray reports whether the container uses what it was not given.
func (c *Container) stray() bool { return c.Holds && c.Sharing == gpu.SharingNone }

// PodName is the pod's name with its namespace.
func (c *Container) PodName() string { return or(c.Namespace) + "/" + or(c.Pod) }

// How says what a container was given. It is not said in the words for how energy is
// charged: who was given a whole GPU may be charged for a part of its energy only.
func (g *GPU) How(c Container) string {
	what := "the GPU"
	if c.GPUInstance != "" {
		what = "instance " + c.GPUInstance
		if profile := g.Profile(c.GPUInstance); profile != "" {
			what += " (" + profile + ")"
		}
	}
	return printable(how(c, what))
}

// formerly says what a container had that is gone. The profile of its instance is not
// known any more: by now the number may be another instance's.
func formerly(c Container) string {
	if c.GPUInstance == "" {
		return ""
	}
	return "instance " + printable(c.GPUInstance)
}

// how tells time-slicing and MPS not apart: the kubelet does not either.
func how(c Container, what string) string {
	switch {
	case c.stray():
		return "uses " + what + " without an allocation"
	case c.Sharing == "":
		return "uses " + what + "; what it was given is not known"
	case c.Replicas == 0:
		return "uses " + what + ", which another container of its pod was given"
	case c.Sharing == gpu.SharingExclusive && c.GPUInstance == "":
		return "given the whole GPU"
	case c.Sharing == gpu.SharingExclusive, c.Sharing == gpu.SharingMIG:
		return "given " + what
	case c.Claim != "":
		return "given " + what + " with others"
	}
	return "given " + plural(c.Replicas, "replica", "replicas") + " of " + what
}

// State says in a word how the stage is.
func (s *Stage) State() string {
	if s.Up {
		return "up"
	}
	return "DOWN"
}

// LastSuccessAgo says when the stage last succeeded.
func (s *Stage) LastSuccessAgo() string {
	if s.SuccessAgeSeconds == nil {
		return "never"
	}
	return ago(*s.SuccessAgeSeconds)
}

// About says what the stage is.
func (s *Stage) About() string { return stage.About(stage.Name(s.Name)) }

// Lost counts the GPUs that are lost.
func (p *Page) Lost() int {
	n := 0
	for i := range p.GPUs {
		if !p.GPUs[i].Present {
			n++
		}
	}
	return n
}

// silent counts the GPUs that are present and do not answer.
func (p *Page) silent() int {
	n := 0
	for i := range p.GPUs {
		if p.GPUs[i].Present && !p.GPUs[i].Answers {
			n++
		}
	}
	return n
}

// Summary says what the node has.
func (p *Page) Summary() string {
	var parts []string
	lost := p.Lost()
	switch silent := p.silent(); {
	case (!p.DriverUp || p.old()) && len(p.GPUs) == 0:
		parts = append(parts, "no GPU is known")
	case !p.DriverUp || p.old():
		parts = append(parts, plural(len(p.GPUs)-lost, "GPU known from before", "GPUs known from before"))
	case silent > 0:
		parts = append(parts, plural(len(p.GPUs)-lost, "GPU present", "GPUs present"), fmt.Sprintf("%d of them without an answer", silent))
	default:
		parts = append(parts, plural(len(p.GPUs)-lost, "GPU present", "GPUs present"))
	}
	if lost > 0 {
		parts = append(parts, fmt.Sprintf("%d LOST", lost))
	}
	for i := range p.Drivers {
		d := &p.Drivers[i]
		parts = append(parts, "driver "+or(shown(d.Version))+" through "+strings.ToUpper(or(shown(d.Name))))
	}
	if len(p.Drivers) == 0 {
		parts = append(parts, "the driver does not answer")
	}
	return strings.Join(parts, ", ")
}

// Read says when the state was read.
func (p *Page) Read() string {
	return fmt.Sprintf("read %s, at %s", ago(p.AgeSeconds), p.ReadAt())
}

// ReadAt is the moment at which the state was read.
func (p *Page) ReadAt() string { return moment(p.Time) }

// title is the node's name.
func (p *Page) title() string {
	if p.Node == "" {
		return "this node"
	}
	return printable(p.Node)
}
