package gpu

import (
	"slices"
	"time"
)

// Book holds the settled energy of one GPU. At every moment
//
//	Energy = Σ Accounts + Σ Unattributed + Retired
//
// exactly, in millijoules. The left side is the sum of the board counter's differences, the right
// side comes from the accounts.
type Book struct {
	// Opened is the time at which counting began. It is the created timestamp of the counters.
	Opened time.Time `json:"opened"`
	// Settled is the time up to which the book is complete.
	Settled Instant     `json:"settled"`
	Energy  Millijoules `json:"energy"`
	// Unattributed is the energy that is charged to no account, by reason.
	Unattributed [NumReasons]Millijoules `json:"unattributed"`
	// Retired is the energy of accounts that are no longer exported.
	Retired Millijoules `json:"retired"`
	// Resets counts confirmed discontinuities of the board counter. Rejected counts implausible
	// readings.
	Resets   uint64 `json:"resets"`
	Rejected uint64 `json:"rejected"`
	// Uncounted is an upper bound of the energy that the GPU used and that Energy omits because of
	// resets, rejected readings and gaps.
	Uncounted Millijoules `json:"uncounted,omitempty"`
	// Estimated is the part of Energy that was divided over several owners with an estimated idle
	// power.
	Estimated Millijoules `json:"estimated,omitempty"`
	// Throttled is the part of Energy that was used while the GPU was throttled.
	Throttled ByThrottle `json:"throttled,omitzero"`
	// Unsampled is the time for which the driver's utilisation samples were lost: the driver's
	// ring holds ten seconds. It is nil if the GPU never returned such samples.
	Unsampled *time.Duration `json:"unsampled,omitempty"`

	// IdlePower is the measured power of the GPU with open contexts and no work; 0 until it
	// is known.
	IdlePower Watts `json:"idle_power_watts,omitempty"`
	// Floor is the idle power that currently divides the energy: IdlePower or an estimate. It is
	// not saved.
	Floor IdlePower `json:"-"`

	// Accounts, and the processes in them, are saved one by one.
	Accounts []Account `json:"-"`
}

// Sum returns the right side of the equation of [Book].
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

// GroupAccount is the sum over the accounts of a group of owners on one GPU, such as the containers
// of a pod. They retire together, so the sum never falls while the group has accounts.
type GroupAccount struct {
	Owner // without its part
	// Opened is the earliest opening time of the accounts.
	Opened time.Time
	Energy Millijoules
	// Exclusive, Idle and Estimated are parts of Energy, as in [Account].
	Exclusive, Idle, Estimated Millijoules
	// Throttled is a part of Energy and time, as in [Account]. The time is summed over parts and
	// MIG instances, which can work at the same time.
	Throttled ByThrottle
	// Allocated, Active and Busy are summed over parts and MIG instances, which can be held at the
	// same time.
	Allocated, Active, Busy time.Duration
	// GPUTime is Allocated weighted by the share of the GPU.
	GPUTime time.Duration
	// Profiled is summed in the same way as Busy.
	Profiled Profiled
	// Units are the parts of Energy that are charged to units in the group.
	Units []UnitAccount
}

// Groups returns the accounts of the groups.
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

// addUnits adds the accounts of units in a container.
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

// AccountKey names the account of an owner on a GPU; together with the GPU's UUID it is the
// key of the owner's series.
type AccountKey struct {
	// GPUInstance is the MIG instance, empty for a whole GPU.
	GPUInstance string `json:"gpu_instance,omitempty"`
	Owner
}

// Account is the energy and time charged to one owner on one GPU.
type Account struct {
	AccountKey
	Opened time.Time `json:"opened"`
	Energy ByMethod  `json:"energy"`
	// Idle is the part of Energy that is the owner's share of the GPU's idle energy.
	Idle Millijoules `json:"idle"`
	// Estimated is the part of Energy that was divided with an estimated idle power of the GPU.
	Estimated Millijoules `json:"estimated,omitempty"`
	// Throttled is the part of Energy that the owner used while the GPU was throttled, and the time of these intervals.
	Throttled ByThrottle `json:"throttled,omitzero"`
	// Allocated is the time for which the owner held the device. Active is the time for which it
	// worked on the device, in whole intervals. Busy is the sampled busy time of its processes on the
	// device, which is at most Active.
	Allocated time.Duration `json:"allocated"`
	Active    time.Duration `json:"active"`
	Busy      time.Duration `json:"busy,omitempty"`
	// GPUTime is Allocated weighted by the owner's share of the GPU: its replicas divided by all
	// held replicas, or its slices divided by all slices. The sum over all accounts of a GPU
	// never exceeds the elapsed time.
	GPUTime time.Duration `json:"gpu_time"`
	// Profiled is zero unless the GPU is profiled and the owner had it alone.
	Profiled Profiled `json:"profiled,omitzero"`
	// LastAlive is the last settled time (boot clock) at which the owner held or used the GPU.
	LastAlive time.Duration    `json:"last_alive"`
	Processes []ProcessAccount `json:"-"`
	// Units are parts of Energy: the energy of the jobs that run inside a pod. Most accounts have
	// none.
	Units []UnitAccount `json:"units,omitempty"`
}

// UnitAccount is the part of an account's energy that went to the processes of one unit.
type UnitAccount struct {
	Unit
	Opened time.Time   `json:"opened"`
	Energy Millijoules `json:"energy"`
	// LastAlive is the last settled time at which a process of the unit was on the GPU.
	LastAlive time.Duration `json:"last_alive"`
}

// ProcessAccount is the part of an account's energy that went to one process.
type ProcessAccount struct {
	ProcessID
	// Name is the name of the process when it was first read.
	Name        string    `json:"name"`
	ContainerID string    `json:"container_id,omitempty"`
	StartTime   time.Time `json:"start_time"`
	Opened      time.Time `json:"opened"`
	Energy      ByMethod  `json:"energy"`
	// LastAlive is the last settled time at which the process was on the GPU.
	LastAlive time.Duration `json:"last_alive"`
	// Folded marks the account that collects an owner's processes beyond the limit. Its PID is 0
	// and it is exported as pid="other".
	Folded bool `json:"folded,omitempty"`
}

// ByMethod is energy by charging method, indexed by [Method].
type ByMethod [NumMethods]Millijoules

// Sum returns the energy over all methods.
func (e ByMethod) Sum() Millijoules {
	var sum Millijoules
	for _, m := range e {
		sum += m
	}
	return sum
}

// Plus returns the sum of e and more, by method.
func (e ByMethod) Plus(more ByMethod) ByMethod {
	for m := range e {
		e[m] += more[m]
	}
	return e
}

// Method is how energy was charged to an account.
type Method int

// The methods, most certain first.
const (
	Exclusive Method = iota // measured: no other owner held or used the GPU
	Shared                  // apportioned by the measured activity of several owners
	Allocated               // charged for holding the device
	NumMethods
)

// String returns the value of the method label.
func (m Method) String() string { return [...]string{"exclusive", "shared", "allocated"}[m] }

// Reason is the reason why energy is charged to no account.
type Reason int

// The reasons.
const (
	Idle     Reason = iota // no owner held or used the GPU
	Host                   // used by a process of the host
	Unmapped               // used by a process whose owner is unknown
	Unknown                // held by an allocation that is stale or whose pod may no longer exist
	Gap                    // no readings were taken, and the owners before and after differ
	NumReasons
)

// String returns the value of the reason label.
func (r Reason) String() string {
	return [...]string{"idle", "host", "unmapped", "unknown", "gap"}[r]
}
