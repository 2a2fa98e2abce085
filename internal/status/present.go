package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/labelvalue"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// These are the states of a GPU.
const (
	statePresent = "present"
	stateSilent  = "not responding"
	stateLost    = "LOST"
)

// State returns whether the GPU is present, does not respond, or is lost.
func (g *GPU) State() string {
	switch {
	case !g.Present:
		return stateLost
	case !g.Answers:
		return stateSilent
	}
	return statePresent
}

// Number returns the driver's index of the GPU.
func (g *GPU) Number() string {
	if g.Index == nil {
		return none
	}
	return fmt.Sprint(*g.Index)
}

func (g *GPU) title() string {
	if !g.Present {
		return "Lost GPU"
	}
	return "GPU " + g.Number()
}

// Name returns a name for the GPU in a sentence. It consists of stable attributes: model, serial
// number and PCI address.
func (g *GPU) Name() string {
	serial := "without a serial number"
	if g.Serial != "" {
		serial = "serial " + labelvalue.Printable(g.Serial)
	}
	return fmt.Sprintf("%s, %s, at %s", or(g.Model), serial, or(g.PCIBusID))
}

// Position returns the place of the GPU in its chassis.
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

// LastAnswer returns the age of the last reading.
func (g *GPU) LastAnswer() string {
	if g.ReadingAgeSeconds == nil {
		return "never"
	}
	return ago(*g.ReadingAgeSeconds)
}

func (g *GPU) answered() string {
	if g.ReadingAgeSeconds == nil {
		return "never read"
	}
	return "last reading " + g.LastAnswer()
}

func (g *GPU) busy() string {
	if g.UtilizationRatio == nil {
		return ""
	}
	return fmt.Sprintf("%.0f %% of the time", 100**g.UtilizationRatio)
}

func (g *GPU) memory() string {
	if g.MemoryUsedBytes == nil || g.MemoryTotalBytes == nil {
		return ""
	}
	const gib = 1 << 30
	return fmt.Sprintf("%.1f of %.1f GiB", float64(*g.MemoryUsedBytes)/gib, float64(*g.MemoryTotalBytes)/gib)
}

func (g *GPU) temperature() string {
	if g.TemperatureCelsius == nil {
		return ""
	}
	return fmt.Sprintf("%.0f °C", *g.TemperatureCelsius)
}

func (g *GPU) instances() string {
	var list []string
	for _, i := range *g.MIG {
		list = append(list, labelvalue.Printable(i.ID+" ("+i.Profile+")"))
	}
	return cmp.Or(strings.Join(list, ", "), "none")
}

func (p *Page) onBoardOf(g *GPU) string {
	var others []string
	for i := range p.GPUs {
		if other := &p.GPUs[i]; other != g && g.Serial != "" && other.Serial == g.Serial {
			others = append(others, other.title())
		}
	}
	return strings.Join(others, ", ")
}

// Errors returns a summary of the XID errors, or an empty text if there are no errors.
func (g *GPU) Errors() string {
	if g.XIDErrors == nil || g.LastXID == nil || g.LastXIDTime == nil {
		return ""
	}
	return fmt.Sprintf("%s since boot, last XID %d at %s",
		plural(int(*g.XIDErrors), "XID error", "XID errors"), *g.LastXID, moment(*g.LastXIDTime))
}

const rowsGood = "no pending row remaps"

// Rows returns a description of the row remaps, or an empty text if they are not reported.
func (g *GPU) Rows() string {
	switch {
	case g.RowRemapFailed == nil || g.RowRemapPending == nil:
		return ""
	case *g.RowRemapFailed:
		return "A faulty memory row could not be remapped because no spare row is left: return the board"
	case *g.RowRemapPending:
		return "A row remap is pending: reset the GPU"
	}
	return rowsGood
}

// RAS lists the RAS errors by type and block. The list is empty if there are no errors.
func (g *GPU) RAS() string {
	return g.counted(gpu.RASUncorrectable, gpu.RASDeferred, gpu.RASCorrectable)
}

// Uncorrectable lists the RAS errors that could not be corrected. The list is empty if there are no
// such errors.
func (g *GPU) Uncorrectable() string {
	errors := g.counted(gpu.RASUncorrectable, gpu.RASDeferred)
	if errors == "" {
		return ""
	}
	return "RAS errors since the driver was loaded: " + errors
}

func (g *GPU) counted(types ...gpu.RASType) string {
	var parts []string
	for _, kind := range types {
		for _, e := range g.RASErrors {
			if e.Type == kind && e.Count > 0 {
				parts = append(parts, fmt.Sprintf("%d %s in %s", e.Count, kind, labelvalue.Printable(e.Block)))
			}
		}
	}
	return strings.Join(parts, ", ")
}

// Others returns a description of the processes that belong to no container.
func (g *GPU) Others() string {
	var others, on []string
	if n := g.HostProcesses; n > 0 {
		on = append(on, plural(n, "process of the host", "processes of the host"))
	}
	if n := g.UnmappedProcesses; n > 0 {
		on = append(on, plural(n, "process with an unknown container", "processes with an unknown container"))
	}
	if on != nil {
		others = append(others, "Also used by "+strings.Join(on, ", "))
	}
	if holders, _ := g.holders(); len(holders) > 0 && g.Present && !g.HoldersKnown {
		others = append(others, "other users are unknown")
	}
	return strings.Join(others, "; ")
}

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

// NoHolder returns a text that is shown if no owner is known to hold the GPU.
func (g *GPU) NoHolder() string {
	if g.HoldersKnown {
		return "no owner"
	}
	return "unknown"
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
	return labelvalue.Printable((*g.MIG)[i].Profile)
}

// stray reports whether the container uses the GPU or MIG instance without an allocation.
func (c *Container) stray() bool { return c.Holds && c.Sharing == gpu.SharingNone }

// PodName returns the name of the pod with its namespace, or the name of the unit.
func (c *Container) PodName() string {
	if c.Unit != "" {
		return unitName(c.Manager, c.Unit)
	}
	return or(c.Namespace) + "/" + or(c.Pod)
}

// Who returns PodName and, for a unit, the array element, job name, user and account.
func (c *Container) Who() string {
	var known []string
	for _, name := range []string{c.ArrayElement, c.JobName} {
		if name != "" {
			known = append(known, labelvalue.Printable(name))
		}
	}
	if c.User != "" {
		known = append(known, labelvalue.Printable(c.User))
	} else if c.UID != "" && c.UID != c.Unit {
		known = append(known, "user "+labelvalue.Printable(c.UID))
	}
	if c.Account != "" {
		known = append(known, labelvalue.Printable(c.Account))
	}
	if known == nil {
		return c.PodName()
	}
	return c.PodName() + " (" + strings.Join(known, ", ") + ")"
}

// several formats the number of owners in a list. The noun in the result is "containers", or "owners" if the list
// contains a unit.
func several(list []Container, n int) string {
	if slices.ContainsFunc(list, func(c Container) bool { return c.Unit != "" }) {
		return plural(n, "owner", "owners")
	}
	return plural(n, "container", "containers")
}

func (c *Container) part() string {
	if c.Unit != "" {
		return ""
	}
	return or(c.Container)
}

// How returns a description of a container's allocation. It does not use the names of the charging methods. The holder
// of a whole GPU may be charged only a part of the GPU's energy.
func (g *GPU) How(c Container) string {
	what := "the GPU"
	if c.GPUInstance != "" {
		what = "instance " + c.GPUInstance
		if profile := g.Profile(c.GPUInstance); profile != "" {
			what += " (" + profile + ")"
		}
	}
	return labelvalue.Printable(how(c, what))
}

// formerly returns a description of the allocation of a container that has ended. It omits the
// profile of a MIG instance, because the number of the instance may have been reused.
func formerly(c Container) string {
	if c.GPUInstance == "" {
		return ""
	}
	return "instance " + labelvalue.Printable(c.GPUInstance)
}

// how returns a description of a container's allocation. The argument what describes the GPU or MIG instance. It does
// not distinguish time-slicing from MPS, because the kubelet does not report the difference.
func how(c Container, what string) string {
	switch {
	case c.stray():
		return "uses " + what + " without an allocation"
	case c.Sharing == "" && c.Unit != "":
		return "uses " + what
	case c.Sharing == "":
		return "uses " + what + "; its allocation is unknown"
	case c.Replicas == 0:
		return "uses " + what + ", allocated to another container of its pod"
	case c.Sharing == gpu.SharingExclusive && c.GPUInstance == "":
		return "whole GPU"
	case c.Sharing == gpu.SharingExclusive, c.Sharing == gpu.SharingMIG:
		return what
	case c.Claim != "" || c.Unit != "":
		return what + " shared with others"
	}
	return plural(c.Replicas, "replica", "replicas") + " of " + what
}

// State returns "up" or "DOWN".
func (s *Stage) State() string {
	if s.Up {
		return "up"
	}
	return "DOWN"
}

// LastSuccessAgo returns the age of the last success.
func (s *Stage) LastSuccessAgo() string {
	if s.SuccessAgeSeconds == nil {
		return "never"
	}
	return ago(*s.SuccessAgeSeconds)
}

// About returns a description of the stage.
func (s *Stage) About() string { return stage.About(stage.Name(s.Name)) }

// Lost returns the number of lost GPUs.
func (p *Page) Lost() int {
	n := 0
	for i := range p.GPUs {
		if !p.GPUs[i].Present {
			n++
		}
	}
	return n
}

func (p *Page) silent() int {
	n := 0
	for i := range p.GPUs {
		if p.GPUs[i].Present && !p.GPUs[i].Answers {
			n++
		}
	}
	return n
}

// Summary returns a text with the number of GPUs by state and the versions of the drivers.
func (p *Page) Summary() string {
	var parts []string
	lost := p.Lost()
	switch silent := p.silent(); {
	case (!p.DriverUp || p.old()) && len(p.GPUs) == 0:
		parts = append(parts, "no GPU found")
	case !p.DriverUp || p.old():
		parts = append(parts, plural(len(p.GPUs)-lost, "GPU from an earlier reading", "GPUs from an earlier reading"))
	case silent > 0:
		parts = append(parts, plural(len(p.GPUs)-lost, "GPU present", "GPUs present"), fmt.Sprintf("%d not responding", silent))
	default:
		parts = append(parts, plural(len(p.GPUs)-lost, "GPU present", "GPUs present"))
	}
	if lost > 0 {
		parts = append(parts, fmt.Sprintf("%d LOST", lost))
	}
	for i := range p.Drivers {
		d := &p.Drivers[i]
		parts = append(parts, "driver "+or(shown(d.Version))+" through "+or(library(d.Name)))
	}
	if len(p.Drivers) == 0 {
		parts = append(parts, "driver not responding")
	}
	return strings.Join(parts, ", ")
}

func library(name string) string {
	if name == "nvml" {
		return "NVML"
	}
	return shown(name)
}

// Read returns a sentence about the time of the last reading.
func (p *Page) Read() string {
	return fmt.Sprintf("Last reading %s, at %s", ago(p.AgeSeconds), p.ReadAt())
}

// ReadAt returns the time of the last reading.
func (p *Page) ReadAt() string { return moment(p.Time) }

func (p *Page) title() string {
	if p.Node == "" {
		return "this node"
	}
	return labelvalue.Printable(p.Node)
}
