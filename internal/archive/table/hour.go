package table

import (
	"cmp"
	"slices"
	"time"
)

// Hour contains the rows of one hour and one cluster, and the state in which they are stored.
type Hour struct {
	Cluster   string
	Start     time.Time
	GPUs      []GPU      // sorted by node and UUID
	Charges   []Charge   // sorted by node, UUID, reason, pod and unit
	Pods      []Pod      // sorted by namespace, name and UID
	Workloads []Workload // sorted by UID
	// UnknownPods contains the charged pods that no series of their cluster names, sorted. If the cluster has no series
	// that name pods, it is empty.
	UnknownPods []PodID
	// Dropped is the number of GPU scrapes that were dropped because of an implausible value.
	Dropped int
	Refused bool

	Filed
	State State
	// SilentNodes is the number of nodes that have no samples in the store. A failed scrape also leaves samples.
	// ExplainedNodes is the number of these nodes that were removed, drained or renamed.
	SilentNodes, ExplainedNodes int
	// Corrections contains the differences from the stored charges. It is empty unless the month is closed.
	Corrections []Charge
	// Kept is set for a corrected hour, because a correction does not replace the rows of GPUs and charges.
	Kept *Kept
	// Events and Snapshots contain rows of the tables with the same names; see [EventRows].
	Events, Snapshots []Event
	// Entries contains rows of [Chain]; see [EntryRows].
	Entries []Entry
}

// Kept contains the row counts of gpu_hours and charges for a corrected hour. An earlier revision stored these rows.
type Kept struct{ GPUs, Charges int64 }

// Keep returns a corrected hour with the row counts from the given row of the manifest.
func (h *Hour) Keep(row []any) *Hour {
	corrected := *h
	corrected.Kept = &Kept{Hours.value(row, "gpus").(int64), Hours.value(row, "charges").(int64)}
	return &corrected
}

func (h *Hour) rows() Kept {
	if h.Kept != nil {
		return *h.Kept
	}
	return Kept{int64(len(h.GPUs)), int64(len(h.Charges))}
}

// Filed identifies the rows of an hour in a sink. It is zero if the sink does not contain the hour.
type Filed struct {
	Revision int64  // revision of the hour, starting at 1
	Digest   string // SHA-256 of the rows
	Reason   string // reason that an operator gave for accepting gaps
	Pruned   bool   // the rows were deleted
}

// State is the state of an archived hour.
type State string

// An archived hour has one of these states.
const (
	Complete  State = "complete"
	Gaps      State = "gaps"      // an operator accepted that samples are missing
	Corrected State = "corrected" // corrections were added after the month was closed
	Pruned    State = "pruned"    // the rows of the hour were deleted
)

// Join adds the rows of other GPUs for the same hour.
func (h *Hour) Join(parts ...*Hour) {
	for _, part := range parts {
		h.GPUs = append(h.GPUs, part.GPUs...)
		h.Charges = append(h.Charges, part.Charges...)
		h.Dropped += part.Dropped
	}
	slices.SortFunc(h.GPUs, func(a, b GPU) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.UUID, b.UUID)) })
	slices.SortFunc(h.Charges, Charge.compare)
}

// Refuse removes energy and times. It keeps nodes, slots, health and owners, because they do not depend on the energy.
func (h *Hour) Refuse() {
	h.Refused = true
	for i := range h.GPUs {
		g := &h.GPUs[i]
		g.Energy, g.Uncounted, g.Estimated = 0, 0, 0
	}
	for i := range h.Charges {
		c := &h.Charges[i]
		c.Clear()
		c.Began, c.Ended = time.Time{}, time.Time{}
	}
}

// Hours is the manifest. It has a row for each hour whose rows are all stored.
var Hours = build("hours", "one hour of one cluster. The row exists only if all rows of the hour are stored", nil,
	func(h *Hour) []State { return []State{h.State} },
	manifest("state", Text, "complete; gaps: an operator accepted missing samples; corrected: corrections were added; pruned: the rows are deleted, and monthly_charges contains their sums", func(h *Hour) any { return string(h.State) }),
	manifest("revision", Int, "1 when the hour is first filed; each change adds 1", func(h *Hour) any { return h.Revision }),
	manifest("gpus", Int, "rows in gpu_hours", func(h *Hour) any { return h.rows().GPUs }),
	manifest("charges", Int, "rows in charges", func(h *Hour) any { return h.rows().Charges }),
	manifest("energy_mj", Int, "energy of all boards in millijoules", func(h *Hour) any { return h.energy() }),
	manifest("scrapes", Int, "scrapes of all GPUs", func(h *Hour) any { return h.scrapes() }),
	manifest("silent_nodes", Int, "nodes without samples and without failed scrapes", func(h *Hour) any { return int64(h.SilentNodes) }),
	manifest("digest", Text, "SHA-256 of the rows of gpu_hours, charges, pods and workloads", func(h *Hour) any { return h.Digest }),
	manifest("explained_nodes", Int, "silent nodes that were removed, drained or renamed", func(h *Hour) any { return int64(h.ExplainedNodes) }).addedIn(9),
	manifest("reason", Text, "reason why an operator accepted missing samples; empty if none were accepted", func(h *Hour) any { return shorten(h.Reason) }).addedIn(6),
	manifest("unknown_pods", Int, "charged pods that are missing from the series of the reconciler and of kube-state-metrics; 0 if the store has no such series", func(h *Hour) any { return int64(len(h.UnknownPods)) }).addedIn(7),
)

func manifest(name string, as Type, help string, value func(h *Hour) any) Field[State] {
	return computed(name, as, help, func(h *Hour, _ *State) any { return value(h) })
}

func (h *Hour) energy() (sum int64) {
	for i := range h.GPUs {
		sum += h.GPUs[i].Energy
	}
	return sum
}

func (h *Hour) scrapes() (sum int64) {
	for i := range h.GPUs {
		sum += h.GPUs[i].Scrapes
	}
	return sum
}

// EarlierReason is the reason for gaps in hours from earlier versions, which recorded no reason.
const EarlierReason = "filed by an earlier version"

// FiledIn converts a row of the manifest to a [Filed].
func FiledIn(row []any) Filed {
	f := Filed{
		Revision: Hours.value(row, "revision").(int64), Digest: Hours.value(row, "digest").(string), Reason: Hours.value(row, "reason").(string), Pruned: StateIn(row) == Pruned,
	}
	if f.Reason == "" && StateIn(row) == Gaps {
		f.Reason = EarlierReason
	}
	return f
}

// StateIn returns the state in a row of the manifest.
func StateIn(row []any) State { return State(Hours.value(row, "state").(string)) }
