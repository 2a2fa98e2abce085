// Package health derives advice about GPUs and nodes from a snapshot, for example to reset a GPU or to return a board.
// The exporter serves the advice on /health.json, which the status page and the reconciler use.
package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// Version changes if the meaning of a field of the page changes. It does not change if a field is added.
const Version = 1

// Path is the HTTP path of the page.
const Path = "/health.json"

// A GPU that was not read for this time counts as not responding. An older snapshot counts as missing.
const silence = 5 * time.Minute

// Page describes the health of a node. Unknown values are absent.
type Page struct {
	Version int `json:"version"`
	// Time is the time of the reading. AgeSeconds is the age of the reading at the time of the response.
	Time       time.Time `json:"time"`
	AgeSeconds float64   `json:"age_seconds"`
	Node       string    `json:"node"`
	// Advice is the worst advice for the node and its GPUs. Evidence contains the findings about the node itself.
	Advice   Advice     `json:"advice"`
	Evidence []Evidence `json:"evidence,omitempty"`
	GPUs     []GPU      `json:"gpus"`
}

// GPU describes the health and the place of one GPU.
type GPU struct {
	UUID            string `json:"uuid"`
	Serial          string `json:"serial"`
	BoardPartNumber string `json:"board_part_number"`
	Model           string `json:"model"`
	PCIBusID        string `json:"pci_bus_id"`
	ChassisSerial   string `json:"chassis_serial"`
	ChassisSlot     *int   `json:"chassis_slot,omitempty"`
	TrayIndex       *int   `json:"tray_index,omitempty"`
	ModuleID        *int   `json:"module_id,omitempty"`
	Present         bool   `json:"present"`

	Advice   Advice     `json:"advice"`
	Evidence []Evidence `json:"evidence,omitempty"`
	// NotReported lists the kinds of evidence that the GPU cannot report: xid and row_remap. Without this evidence, the
	// advice ok is less certain.
	NotReported []string `json:"not_reported,omitempty"`
}

// Evidence describes one finding.
type Evidence struct {
	Code    string `json:"code"`
	Advice  Advice `json:"advice"`
	Meaning string `json:"meaning"`
	// Detail describes the affected part, such as a problem of the fabric or a block of the GPU.
	Detail string `json:"detail,omitempty"`
	// Count is the number of events after Since. First and Last are the times of the first and the last event. These
	// fields are absent if the finding is a current state and not a number of events.
	Count uint64     `json:"count,omitempty"`
	Since *time.Time `json:"since,omitempty"`
	First *time.Time `json:"first,omitempty"`
	Last  *time.Time `json:"last,omitempty"`
	// Reset is the time of a reset after the last event. The advice is then watch.
	Reset *time.Time `json:"reset,omitempty"`
}

// New returns the page for a snapshot at the given time.
func New(s *gpu.Snapshot, now gpu.Instant) Page {
	p := Page{
		Version: Version, Time: s.At.Wall.UTC(), AgeSeconds: now.Sub(s.At).Seconds(), Node: labelvalue.Valid(s.Node.Name),
		Evidence: ofNode(s, now), GPUs: make([]GPU, 0, len(s.GPUs)),
	}
	p.Advice = worst(p.Evidence)
	for i := range s.GPUs {
		g := newGPU(s, &s.GPUs[i])
		p.Advice = Worse(p.Advice, g.Advice)
		p.GPUs = append(p.GPUs, g)
	}
	return p
}

func newGPU(s *gpu.Snapshot, g *gpu.GPU) GPU {
	identity := func(s string) string { return labelvalue.Valid(gpu.Identity(s)) }
	silent := gpu.Responds(s.Drivers, g.Vendor) && g.Silent > silence
	out := GPU{
		UUID: labelvalue.Valid(g.UUID), Serial: identity(g.Serial), BoardPartNumber: identity(g.BoardPartNumber),
		Model: identity(g.Model), PCIBusID: labelvalue.Valid(g.PCIBusID), ChassisSerial: identity(g.Platform.ChassisSerial),
		ChassisSlot: g.Platform.Slot, TrayIndex: g.Platform.Tray, ModuleID: g.Platform.ModuleID, Present: g.Present,
		Evidence: ofGPU(g, silent, slices.Concat(downLinks(s, g), recent(s, g))),
	}
	out.Advice = worst(out.Evidence)
	if !g.ReportsEvents {
		out.NotReported = append(out.NotReported, "xid")
	}
	if g.Reading == nil || g.Reading.RowRemap == nil {
		out.NotReported = append(out.NotReported, "row_remap")
	}
	return out
}

func worst(findings []Evidence) Advice {
	v := OK
	for _, e := range findings {
		v = Worse(v, e.Advice)
	}
	return v
}

// There is already a finding about a GPU that was lost in this boot, so it does not count as missing.
func ofNode(s *gpu.Snapshot, now gpu.Instant) []Evidence {
	if now.Sub(s.At) > silence {
		return []Evidence{condition(notRead, "")}
	}
	unread := func(g gpu.GPU) bool { return !gpu.Responds(s.Drivers, g.Vendor) }
	if len(s.Drivers) == 0 || slices.ContainsFunc(s.GPUs, unread) {
		return []Evidence{condition(driverDown, "")}
	}
	if s.PCIGPUs == nil || s.DriverGPUs == nil {
		return nil
	}
	missing := *s.PCIGPUs - *s.DriverGPUs
	for i := range s.GPUs {
		if !s.GPUs[i].Present {
			missing--
		}
	}
	if missing <= 0 {
		return nil
	}
	return []Evidence{condition(gpusMissing, fmt.Sprintf("%d of %d", missing, *s.PCIGPUs))}
}

// ofGPU returns the findings about a GPU, including the findings in compared. The worst finding is first. silent is set
// if the GPU was not read, although the driver responds and no operator released the GPU.
func ofGPU(g *gpu.GPU, silent bool, compared []Evidence) []Evidence {
	found := slices.Concat(conditions(g, silent), compared, losses(&g.Events, g.Present))
	for _, r := range Rules {
		if r.XID != 0 && !g.Events.Last[r.XID].IsZero() {
			found = append(found, r.event(&g.Events))
		}
	}
	slices.SortStableFunc(found, func(a, b Evidence) int { return slices.Index(order, b.Advice) - slices.Index(order, a.Advice) })
	return found
}

func conditions(g *gpu.GPU, silent bool) (found []Evidence) {
	add := func(code, detail string) { found = append(found, condition(code, labelvalue.Valid(detail))) }
	if !g.Present {
		return nil
	}
	if silent {
		add(notAnswering, "")
	}
	if f := g.Fabric; f != nil {
		switch f.State {
		case "completed":
		case "failed":
			add(fabricFailed, "")
		default:
			add(fabricIncomplete, f.State)
		}
		if problems := problemsOf(f); problems != "" {
			add(fabricProblem, problems)
		}
	}
	if g.Reading != nil {
		found = append(found, readConditions(g.Reading)...)
	}
	return found
}

func readConditions(r *gpu.Reading) (found []Evidence) {
	add := func(code, detail string) { found = append(found, condition(code, labelvalue.Valid(detail))) }
	if rows := r.RowRemap; rows != nil {
		if rows.Failed {
			add(rowRemapFailure, "")
		}
		if rows.Pending {
			add(rowRemapPending, "")
		}
	}
	if exceeded := value(r, gpu.SRAMThresholdExceeded); exceeded != nil && *exceeded > 0 {
		add(sramThreshold, "")
	}
	found = append(found, counted(r)...)
	width, most := value(r, gpu.PCIeLinkWidth), value(r, gpu.PCIeLinkWidthMax)
	if width != nil && most != nil && *width < *most {
		add(pcieNarrow, fmt.Sprintf("x%.0f of x%.0f", *width, *most))
	}
	switch action := r.Recovery; action {
	case "", gpu.RecoveryNone:
	case gpu.RecoveryReset, gpu.RecoveryReboot, gpu.RecoveryDrainAndReset, gpu.RecoveryBusReset, gpu.RecoverySystemReboot:
		add(recoveryReset, action)
	default: // includes actions of newer drivers
		add(recoveryOther, action)
	}
	for _, e := range r.RASErrors {
		if e.Type == gpu.RASUncorrectable && e.Count > 0 {
			add(rasUncorrectable, e.Block)
			found[len(found)-1].Count = e.Count
		}
	}
	return found
}

// value returns nil if the GPU does not report the metric.
func value(r *gpu.Reading, m gpu.HealthMetric) *float64 {
	i := slices.IndexFunc(r.Health, func(v gpu.HealthValue) bool { return v.Metric == m })
	if i < 0 {
		return nil
	}
	return &r.Health[i].Value
}

func problemsOf(f *gpu.Fabric) string {
	var list []string
	for _, p := range f.Problems {
		switch {
		case p.Present && p.Cause != "":
			list = append(list, p.Name+" ("+p.Cause+")")
		case p.Present:
			list = append(list, p.Name)
		}
	}
	return strings.Join(list, ", ")
}

// If a lost GPU is present again, it was reset.
func losses(x *gpu.DriverEvents, present bool) []Evidence {
	if present && x.Losses == 0 {
		return nil
	}
	e := condition(lost, "")
	if e.Count = x.Losses; x.Losses > 0 {
		e.Since = moment(x.Since)
	}
	switch {
	case x.Losses > 1:
		e.Advice = rule(lost).Again
	case present:
		e.Advice, e.Reset = Watch, moment(x.Reset)
	}
	return []Evidence{e}
}

func (r Rule) event(x *gpu.DriverEvents) Evidence {
	first, last := x.First[r.XID], x.Last[r.XID]
	e := Evidence{
		Code: r.Code, Advice: r.Advice, Meaning: r.Meaning, Count: x.ByCode[r.XID],
		Since: moment(x.Since), First: moment(first), Last: moment(last),
	}
	switch {
	case x.Reset.IsZero():
	case last.Before(x.Reset):
		e.Advice, e.Reset = Watch, moment(x.Reset)
	case r.Again != "" && !first.IsZero() && first.Before(x.Reset):
		e.Advice = r.Again
	}
	return e
}

func condition(code, detail string) Evidence {
	r := rule(code)
	return Evidence{Code: code, Advice: r.Advice, Meaning: r.Meaning, Detail: detail}
}

func rule(code string) *Rule {
	return &Rules[slices.IndexFunc(Rules, func(r Rule) bool { return r.Code == code })]
}

func xid(code uint64, first, again Advice, meaning string) Rule {
	return Rule{Code: fmt.Sprintf("xid_%d", code), XID: code, Advice: first, Again: again, Meaning: meaning, Source: catalogue, Alert: alertXID}
}

// moment returns nil if the time is unknown.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}
