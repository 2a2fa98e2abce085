package gpu

import "time"

// Interval is one settled interval of a GPU. It contains the charges for the interval, and the values
// from which the charges were computed.
//
//	Energy = Σ Charges of owners with accounts + Σ Unattributed
//
// exactly, in millijoules.
type Interval struct {
	From, To Instant
	Energy   Millijoules
	// Late is set if the counter had not changed for some time before the interval. In this case Energy
	// contains the energy since From, but earlier intervals already count the time since From.
	Late bool
	// Gap is set if no readings were taken within the interval.
	Gap bool
	// Listed is set if the processes were known. Allocated is set if the allocations were known.
	Listed, Allocated bool

	// Busy is the busy share of the time, from 0 to 1. Busy is 0 if the source of the busy share is
	// BusyUnknown.
	Busy       float64
	BusySource BusySource
	// IdlePower is the idle power that was used to divide Energy into idle and busy parts. AtRest is
	// set if no work was sampled in this interval and in the previous interval. In this case all energy
	// was idle energy.
	IdlePower IdlePower
	AtRest    bool

	// Parts contains the MIG instances and the free slices, or one part for the whole GPU. If the interval is a gap
	// whose energy is unattributed, Parts is empty.
	Parts   []IntervalPart
	Charges []Charge
	// Unattributed is the energy that is charged to no account, by reason.
	Unattributed [NumReasons]Millijoules
}

// IntervalPart describes one MIG instance, the free slices, or the whole GPU in an interval, with
// its part of the interval's energy.
type IntervalPart struct {
	// Instance is empty for the whole GPU, and for the free slices of a divided GPU.
	Instance string
	Slices   int
	// Active is the busy time of the instance. It is set only if the source of the interval's busy
	// share is BusyInstances.
	Active     time.Duration
	Idle, Busy Millijoules
	// Held is set if the idle energy was divided over holders by replicas. Otherwise the idle energy
	// was divided over the owners with contexts.
	Held bool
}

// Charge is one owner's charge for a part of an interval. The field GPUInstance names the part. If
// the owner has no account ([OwnerKind.HasAccount]), the energy of the charge is also in
// Unattributed. If the owner also pays for vanished processes, there are two charges for this owner
// and part.
type Charge struct {
	AccountKey
	// Holding is the weight of the owner when energy is charged by allocation. If the part is held, the
	// weight is the number of the owner's replicas. Otherwise each owner with a context has the weight
	// 1.
	Holding float64
	// Activity is the busy time of the owner's processes. Served is the part of Activity that an
	// MPS server executed for several owners.
	Activity, Served time.Duration
	Energy           ByMethod
	// Idle is the part of Energy that is idle energy.
	Idle Millijoules
	// Vanished is set if the charge is for processes that ended before they were identified.
	Vanished bool
}

// BusySource is the source of a busy share.
type BusySource int

// The sources of a busy share.
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
