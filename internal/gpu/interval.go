package gpu

import "time"

// Interval is a period for which the ledger has charged the energy of a GPU. It contains the charges and the values
// from which they were computed.
//
//	Energy = Σ Charges of owners with accounts + Σ Unattributed
//
// exactly, in millijoules.
type Interval struct {
	From, To Instant
	Energy   Millijoules
	// Late is set if the counter reported this energy only after To. The counter did not change, or was not available,
	// between From and To. Other intervals already cover this time.
	Late bool
	// Gap is set if no readings were taken within the interval.
	Gap bool
	// Listed is set if the processes were known. Allocated is set if the allocations were known.
	Listed, Allocated bool

	// Busy is the fraction of the interval in which the GPU was busy, from 0 to 1. Busy is 0 if BusySource is
	// BusyUnknown.
	Busy       float64
	BusySource BusySource
	// IdlePower is the idle power that was used to divide Energy into idle and busy parts. AtRest is set if no work was
	// sampled in this interval and in the previous interval. All energy of such an interval is idle energy.
	IdlePower IdlePower
	AtRest    bool

	// Parts contains the MIG instances and the free slices, or one part for the whole GPU. If the interval is a gap
	// whose energy is unattributed, Parts is empty.
	Parts   []IntervalPart
	Charges []Charge
	// Unattributed is the energy that is charged to no account, by reason.
	Unattributed [NumReasons]Millijoules
}

// IntervalPart describes one MIG instance, the free slices, or the whole GPU in an interval.
type IntervalPart struct {
	// Instance is empty for the whole GPU, and for the free slices of a divided GPU.
	Instance string
	Slices   int
	// Active is the busy time of the instance. It is set only if BusySource of the interval is BusyInstances.
	Active     time.Duration
	Idle, Busy Millijoules
	// Held is set if the idle energy was divided among the holders by their replicas. Otherwise it was divided among
	// the owners of contexts.
	Held bool
}

// Charge is the energy that one owner is charged for one [IntervalPart]. If the owner has no account
// ([OwnerKind.HasAccount]), Unattributed also contains the energy. Processes that ended before they were identified
// have a separate Charge; see Vanished.
type Charge struct {
	AccountKey
	// Holding is the owner's weight when energy is charged by allocation. If [IntervalPart.Held] is set, it is the
	// number of the owner's replicas. Otherwise it is 1 for each owner with a context.
	Holding float64
	// Activity is the busy time of the owner's processes. Served is the part of Activity that an
	// MPS server executed for several owners.
	Activity, Served time.Duration
	Energy           ByMethod
	// Idle is the idle energy in Energy.
	Idle Millijoules
	// Vanished is set if the charge is for processes that ended before they were identified.
	Vanished bool
}

// BusySource is the source of [Interval.Busy].
type BusySource int

// The sources of [Interval.Busy].
const (
	BusyUnknown     BusySource = iota
	BusyProcesses              // process samples or process accounting of the driver
	BusyInstances              // activity of the MIG instances
	BusyUtilization            // utilisation of the GPU
	numBusySources
)

// String returns the name of the source.
func (s BusySource) String() string {
	return [numBusySources]string{"unknown", "processes", "instances", "utilisation"}[s]
}
