package gpu

import (
	"slices"
	"time"
)

// Book is the ledger's record of the energy of one GPU. At every moment
//
//	Energy = Σ Accounts + Σ Unattributed + Retired
//
// exactly, in millijoules. Energy is the sum of the increases of the board's counter. The ledger counts Energy
// independently of the accounts.
type Book struct {
	// Opened is the time at which counting began. It is the created timestamp of the counters.
	Opened time.Time `json:"opened"`
	// Settled is the time up to which all energy has been counted and charged.
	Settled Instant     `json:"settled"`
	Energy  Millijoules `json:"energy"`
	// Unattributed is the energy that is charged to no account, by reason.
	Unattributed [NumReasons]Millijoules `json:"unattributed"`
	// Retired is the energy of accounts that are no longer exported.
	Retired Millijoules `json:"retired"`
	// Resets is the number of confirmed interruptions of the board's counter, for example by a driver reload. Rejected
	// is the number of implausible readings.
	Resets   uint64 `json:"resets"`
	Rejected uint64 `json:"rejected"`
	// Uncounted is an upper bound for the energy that is missing from Energy because of resets, rejected readings and
	// gaps.
	Uncounted Millijoules `json:"uncounted,omitempty"`
	// Estimated is the part of Energy that was divided among several owners based on an estimated idle power.
	Estimated Millijoules `json:"estimated,omitempty"`
	// Throttled is the part of Energy that was used while the GPU was throttled.
	Throttled ByThrottle `json:"throttled,omitzero"`
	// Unsampled is the time for which the driver's utilisation samples were lost. The driver keeps samples for only ten
	// seconds. Unsampled is nil if the driver never returned such samples for the GPU.
	Unsampled *time.Duration `json:"unsampled,omitempty"`

	// IdlePower is the measured power of the GPU with open contexts and no work; 0 until it
	// is known.
	IdlePower Watts `json:"idle_power_watts,omitempty"`
	// Floor is the idle power that is currently used to divide the energy: IdlePower or an estimate. It is not saved.
	Floor IdlePower `json:"-"`

	// Accounts is saved in separate records.
	Accounts []Account `json:"-"`
}

// Sum returns the right side of the equation in the comment of [Book].
func (b *Book) Sum() Millijoules {
	sum := b.Retired
	for _, m := range b.Unattributed {
		sum += m
	}
	for i := range b.Accounts {
		sum += b.Accounts[i].Energy.Sum()
	}
	return sum
}

// GroupAccount is the sum of a group's accounts on one GPU. For example, a group consists of all containers of a pod;
// see [Owner.Group]. The accounts of a group are removed together, so that no sum decreases.
type GroupAccount struct {
	Owner // common owner of the accounts; its Part is empty
	// Opened is the earliest opening time of the accounts.
	Opened time.Time
	Energy Millijoules
	// Exclusive, Idle and Estimated are parts of Energy, as in [Account].
	Exclusive, Idle, Estimated Millijoules
	// Throttled contains the throttled part of Energy, and the throttled time, as in [Account]. The times of all
	// containers and MIG instances are added up, so the sum can exceed the elapsed time.
	Throttled ByThrottle
	// Allocated, Active and Busy are sums over all containers and MIG instances. They can also exceed the elapsed time.
	Allocated, Active, Busy time.Duration
	// GPUTime is the sum of [Account.GPUTime] over the accounts.
	GPUTime time.Duration
	// Profiled is the sum over all containers and MIG instances.
	Profiled Profiled
	// Units contains the parts of Energy that jobs inside the pod used.
	Units []UnitAccount
}

// Groups returns the sums for each group of owners.
func (b *Book) Groups() []GroupAccount {
	var groups []GroupAccount
	at := make(map[Owner]int)
	for i := range b.Accounts {
		a := &b.Accounts[i]
		group := a.Group()
		j, ok := at[group]
		if !ok {
			j = len(groups)
			at[group] = j
			groups = append(groups, GroupAccount{Owner: group, Opened: a.Opened})
		}
		g := &groups[j]
		if a.Opened.Before(g.Opened) {
			g.Opened = a.Opened
		}
		g.Energy += a.Energy.Sum()
		g.Exclusive += a.Energy[Exclusive]
		g.Idle += a.Idle
		g.Estimated += a.Estimated
		g.Throttled = g.Throttled.Plus(a.Throttled)
		g.Allocated += a.Allocated
		g.Active += a.Active
		g.Busy += a.Busy
		g.GPUTime += a.GPUTime
		g.Profiled = g.Profiled.Plus(a.Profiled)
		g.addUnits(a.Units)
	}
	return groups
}

func (g *GroupAccount) addUnits(units []UnitAccount) {
	for _, u := range units {
		i := slices.IndexFunc(g.Units, func(k UnitAccount) bool { return k.Unit == u.Unit })
		if i < 0 {
			g.Units = append(g.Units, u)
			continue
		}
		sum := &g.Units[i]
		sum.Energy += u.Energy
		if u.Opened.Before(sum.Opened) {
			sum.Opened = u.Opened
		}
	}
}

// AccountKey identifies the account of an owner on a GPU. Together with the UUID of the GPU it is
// the key of the owner's series.
type AccountKey struct {
	// GPUInstance is the MIG instance, or empty for a whole GPU.
	GPUInstance string `json:"gpu_instance,omitempty"`
	Owner
}

// Account contains the energy and time that are charged to one owner on one GPU.
type Account struct {
	AccountKey
	Opened time.Time `json:"opened"`
	Energy ByMethod  `json:"energy"`
	// Idle is the part of Energy that is the owner's share of the GPU's idle energy.
	Idle Millijoules `json:"idle"`
	// Estimated is the part of Energy that was divided with an estimated idle power of the GPU.
	Estimated Millijoules `json:"estimated,omitempty"`
	// Throttled contains the part of Energy that the owner used while the GPU was throttled, and the throttled time.
	Throttled ByThrottle `json:"throttled,omitzero"`
	// Allocated is the time for which the owner held the device. Active is the total length of the intervals in which
	// the owner worked on the device. Busy is the sampled busy time of the owner's processes on the device. Busy is
	// never greater than Active.
	Allocated time.Duration `json:"allocated"`
	Active    time.Duration `json:"active"`
	Busy      time.Duration `json:"busy,omitempty"`
	// GPUTime is the held time multiplied by the owner's share of the GPU. For a shared GPU, the share is the owner's
	// replicas divided by all held replicas. For a MIG instance, the share is the instance's slices divided by all
	// slices. The sum over all accounts of a GPU never exceeds the elapsed time.
	GPUTime time.Duration `json:"gpu_time"`
	// Profiled is zero unless the GPU was profiled while the owner was alone on it.
	Profiled Profiled `json:"profiled,omitzero"`
	// LastAlive is the boot-clock time of the last observation in which the owner held or used the GPU.
	LastAlive time.Duration    `json:"last_alive"`
	Processes []ProcessAccount `json:"-"`
	// Units contains the parts of Energy that jobs inside a pod used. Most accounts have no units.
	Units []UnitAccount `json:"units,omitempty"`
}

// UnitAccount contains the part of an account's energy that is charged to the processes of one unit.
type UnitAccount struct {
	Unit
	Opened time.Time   `json:"opened"`
	Energy Millijoules `json:"energy"`
	// LastAlive is the boot-clock time of the last observation in which a process of the unit was on the GPU.
	LastAlive time.Duration `json:"last_alive"`
}

// ProcessAccount contains the part of an account's energy that is charged to one process.
type ProcessAccount struct {
	ProcessID
	// Name is the name that the process had when it was first seen.
	Name        string    `json:"name"`
	ContainerID string    `json:"container_id,omitempty"`
	StartTime   time.Time `json:"start_time"`
	Opened      time.Time `json:"opened"`
	Energy      ByMethod  `json:"energy"`
	// LastAlive is the boot-clock time of the last observation in which the process was on the GPU.
	LastAlive time.Duration `json:"last_alive"`
	// Folded is set if several processes of the owner share this account. One reason is the limit of process accounts.
	// A folded account has the PID 0 and the label pid="other".
	Folded bool `json:"folded,omitempty"`
}

// ByMethod contains energy by charging method, indexed by [Method].
type ByMethod [NumMethods]Millijoules

// Sum returns the energy over all methods.
func (e ByMethod) Sum() Millijoules {
	var sum Millijoules
	for _, m := range e {
		sum += m
	}
	return sum
}

// Plus adds more to e, method by method.
func (e ByMethod) Plus(more ByMethod) ByMethod {
	for m := range e {
		e[m] += more[m]
	}
	return e
}

// Method describes how energy was charged to an account.
type Method int

// The methods, in decreasing order of certainty.
const (
	Exclusive Method = iota // measured while no other owner held or used the GPU
	Shared                  // divided by the measured activity of several owners
	Allocated               // charged for holding the device
	NumMethods
)

// String returns the value of the method label.
func (m Method) String() string { return [...]string{"exclusive", "shared", "allocated"}[m] }

// Reason is a reason why energy is charged to no account.
type Reason int

// The reasons.
const (
	Idle     Reason = iota // no owner held or used the GPU
	Host                   // a host process used the GPU
	Unmapped               // a process with an unknown owner used the GPU
	Unknown                // the allocation is stale, or its pod may no longer exist
	Gap                    // no readings were taken, and the owners before and after the gap differ
	NumReasons
)

// String returns the value of the reason label.
func (r Reason) String() string {
	return [...]string{"idle", "host", "unmapped", "unknown", "gap"}[r]
}
