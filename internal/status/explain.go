package status

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// These are the paths of an explanation, as JSON and as an HTML page.
const (
	ExplainPath     = "/explain"
	ExplainPagePath = "/explain.html"
)

// Explanation describes the energy of one GPU that was charged to one owner in a period, and the causes of this charge.
// Energy is in millijoules, so that sums are exact.
type Explanation struct {
	Version int       `json:"version"`
	Time    time.Time `json:"time"`
	Node    string    `json:"node"`
	GPU     Board     `json:"gpu"`
	// Owner is the owner's name: namespace/pod, namespace/pod/container or manager/unit.
	Owner string `json:"owner"`
	// Since is the start of the requested period. From is the start of the first interval, and To is
	// the end of the last interval. If older intervals are not kept, From is later than Since.
	Since time.Time `json:"since"`
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`

	Total ExplainedTime `json:"total"`
	// Causes contains the causes of the charge. Their charges add up to the total charge. Causes with a charge of 0 are
	// omitted.
	Causes []Cause `json:"causes"`
	// Estimated contains the parts of the charge that were divided with an estimated idle power, by the
	// source of the idle power.
	Estimated map[string]gpu.Millijoules `json:"estimated_millijoules"`
	// Late is the charge for energy that the counter reported later than the GPU used it. Unsampled is the charge from
	// intervals in which the busy share of the GPU is unknown.
	Late      gpu.Millijoules `json:"late_millijoules"`
	Unsampled gpu.Millijoules `json:"unsampled_millijoules"`
	// Others is the energy charged to other owners. Unattributed contains the energy charged to no owner, by reason.
	Others       gpu.Millijoules            `json:"others_millijoules"`
	Unattributed map[string]gpu.Millijoules `json:"unattributed_millijoules"`
	// Times contains one element for each interval. If there are many intervals, it contains one element for each group
	// of successive intervals. The charges of all elements add up to the total.
	Times []ExplainedTime `json:"times"`

	asked Query // query that selects this explanation again, with the UUID of the GPU
}

// Board identifies a GPU.
type Board struct {
	UUID     string `json:"uuid"`
	Index    *int   `json:"index,omitempty"`
	Model    string `json:"model"`
	Serial   string `json:"serial"`
	PCIBusID string `json:"pci_bus_id"`
}

// ExplainedTime describes an interval, or the sum of several intervals.
type ExplainedTime struct {
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	Intervals int       `json:"intervals"`
	// Energy is the energy of the whole GPU.
	Energy gpu.Millijoules `json:"gpu_millijoules"`
	// Idle is the part of the energy that the GPU would also use without work, and Busy is the rest. Both describe the
	// whole GPU or, if the owner has MIG instances, these instances.
	Idle gpu.Millijoules `json:"idle_millijoules"`
	Busy gpu.Millijoules `json:"busy_millijoules"`
	// BusyShare is the fraction of time in which the GPU was busy. Intervals with an unknown busy share do not count.
	// BusySource is the source of the busy share, or "mixed" if there are several sources.
	BusyShare  *float64 `json:"busy_share,omitempty"`
	BusySource string   `json:"busy_source"`
	// IdlePower is the idle power that last divided the energy, or nil if no idle power was used. IdlePowerSource is
	// the source of this idle power.
	IdlePower       *float64 `json:"idle_power_watts,omitempty"`
	IdlePowerSource string   `json:"idle_power_source,omitempty"`
	// Activity is the sampled busy time of the owner. AllActivity is the sum of the sampled busy times of all owners.
	Activity    float64 `json:"activity_seconds"`
	AllActivity float64 `json:"all_activity_seconds"`
	// Charged is the energy charged to the owner. OwnIdle is the part of Charged that comes from the idle part of the
	// GPU's energy.
	Charged ChargedExactly  `json:"charged"`
	OwnIdle gpu.Millijoules `json:"own_idle_millijoules"`

	known, busy time.Duration // time for which the busy share is known, and the part of this time in which the GPU was busy
}

// ChargedExactly contains the charged energy by charging method, in millijoules.
type ChargedExactly struct {
	Exclusive gpu.Millijoules `json:"exclusive_millijoules"`
	Shared    gpu.Millijoules `json:"shared_millijoules"`
	Allocated gpu.Millijoules `json:"allocated_millijoules"`
}

// Sum returns the energy over all methods.
func (c ChargedExactly) Sum() gpu.Millijoules { return c.Exclusive + c.Shared + c.Allocated }

func (c *ChargedExactly) add(e gpu.ByMethod) {
	c.Exclusive += e[gpu.Exclusive]
	c.Shared += e[gpu.Shared]
	c.Allocated += e[gpu.Allocated]
}

// CauseKind identifies the rule by which energy was charged.
type CauseKind string

// These are the kinds of causes.
const (
	// CauseSole is the whole energy of a GPU or instance that no other owner held or used.
	CauseSole CauseKind = "sole"
	// CauseIdle is a share of the idle energy, in proportion to the allocation.
	CauseIdle CauseKind = "idle"
	// CauseActivity is a share of the busy energy, in proportion to the sampled activity.
	CauseActivity CauseKind = "activity"
	// CauseRecent is a share of the busy part for which no sample names a process. The share is proportional to the
	// owner's activity in the last minutes.
	CauseRecent CauseKind = "recent"
	// CauseHolding is a share of the busy part in proportion to the allocation, because no activity was sampled.
	CauseHolding CauseKind = "holding"
	// CauseService is a share of the energy for the work of an MPS server, in proportion to the allocation.
	CauseService CauseKind = "service"
	// CauseVanished is the energy for the work of processes that ended before they were identified.
	CauseVanished CauseKind = "vanished"
)

// Cause describes the part of a charge that results from one rule.
type Cause struct {
	Kind CauseKind `json:"kind"`
	// The owner's share is Own divided by All. The unit of both is replicas, contexts or seconds of activity. Held is
	// set if the unit is replicas. If the shares differ between intervals, All is 0.
	Own  float64 `json:"own,omitempty"`
	All  float64 `json:"all,omitempty"`
	Held bool    `json:"held,omitempty"`
	// Seconds is the total time of the intervals with this cause. Divided is the energy that was divided among owners,
	// and Charged is the owner's share of this energy.
	Seconds float64         `json:"seconds"`
	Divided gpu.Millijoules `json:"divided_millijoules"`
	Charged gpu.Millijoules `json:"charged_millijoules"`
}
