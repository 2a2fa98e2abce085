package gpu

import "time"

// Book is the settled energy of one GPU. At every moment
//
//	Energy = Σ Accounts + Σ Unattributed + Retired
//
// exactly, in millijoules. Energy comes from the board counter's differences,
// the right side from the accounts.
type Book struct {
	// Opened is when counting began: the created timestamp of the counters.
	Opened time.Time `json:"opened"`
	// Settled is the moment up to which the book is complete.
	Settled Instant     `json:"settled"`
	Energy  Millijoules `json:"energy"`
	// Unattributed is the energy that is charged to no account, by reason.
	Unattributed [NumReasons]Millijoules `json:"unattributed"`
	// Retired is what accounts held that are no longer exported.
	Retired Millijoules `json:"retired"`
	// Resets counts confirmed discontinuities of the board counter, Rejected
	// the readings that were not plausible.
	Resets   uint64 `json:"resets"`
	Rejected uint64 `json:"rejected"`
	// Unsampled is the time for which the driver's utilisation samples were lost:
	// its ring holds ten seconds. It is nil if the GPU never gave such samples.
	Unsampled *time.Duration `json:"unsampled,omitempty"`

	// IdlePower is the learned power of the GPU with open contexts and no work; 0 until it
	// is known.
	IdlePower Watts `json:"idle_power_watts,omitempty"`

	// Accounts are the accounts. They are saved one by one, like the processes in them.
	Accounts []Account `json:"-"`
}

// Sum returns the right side of the book's equation.
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

// GroupAccount is the sum over the accounts of a group of owners on one GPU, such as those
// of a pod. They retire together, so the sum never falls while the group has any.
type GroupAccount struct {
	Owner // without its part
	// Opened is when the first of the accounts was.
	Opened time.Time
	Energy Millijoules
	// Exclusive and Idle are parts of Energy, as in [Account].
	Exclusive, Idle Millijoules
	// Allocated and Active add up over parts and MIG instances that are held at once.
	Allocated, Active time.Duration
	// GPUTime is Allocated weighted by the share of the GPU.
	GPUTime time.Duration
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
		g.Allocated += a.Allocated
		g.Active += a.Active
		g.GPUTime += a.GPUTime
	}
	return groups
}

// AccountKey names the account of an owner on a GPU; together with the GPU's UUID it is the
// key of the owner's series.
type AccountKey struct {
	// GPUInstance is the MIG instance, empty for a whole GPU.
	GPUInstance string `json:"gpu_instance,omitempty"`
	Owner
}

// Account is what one owner was charged on one GPU.
type Account struct {
	AccountKey
	Opened time.Time `json:"opened"`
	Energy ByMethod  `json:"energy"`
	// Idle is the owner's share of the GPU's idle energy, which is part of Energy.
	Idle Millijoules `json:"idle"`
	// Allocated is how long the owner held the device, Active how long it
	// worked on it.
	Allocated time.Duration `json:"allocated"`
	Active    time.Duration `json:"active"`
	// GPUTime is Allocated weighted by the share of the GPU that the owner held: replicas of
	// all replicas that were held, slices of all slices. Over all accounts of a GPU it never
	// exceeds the time that passed.
	GPUTime time.Duration `json:"gpu_time"`
	// LastAlive is the last settled moment (boot clock) at which the owner
	// held or used the GPU.
	LastAlive time.Duration    `json:"last_alive"`
	Processes []ProcessAccount `json:"-"`
}

// ProcessAccount is the part of an account's energy that went to one process.
type ProcessAccount struct {
	ProcessID
	// Name is the process's name as it was first read.
	Name        string    `json:"name"`
	ContainerID string    `json:"container_id,omitempty"`
	StartTime   time.Time `json:"start_time"`
	Opened      time.Time `json:"opened"`
	Energy      ByMethod  `json:"energy"`
	// LastAlive is the last settled moment at which the process was seen.
	LastAlive time.Duration `json:"last_alive"`
	// Folded marks the one account of an owner that gathers the processes
	// beyond the cap. Its PID is 0; it is exported as pid="other".
	Folded bool `json:"folded,omitempty"`
}

// ByMethod is energy by the way it was charged, indexed by [Method].
type ByMethod [NumMethods]Millijoules

// Sum returns the energy over all methods.
func (e ByMethod) Sum() Millijoules {
	var sum Millijoules
	for _, m := range e {
		sum += m
	}
	return sum
}

// Plus returns the sum of two.
func (e ByMethod) Plus(more ByMethod) ByMethod {
	for m := range e {
		e[m] += more[m]
	}
	return e
}

// Method says how energy was charged to an account.
type Method int

// The methods, from the most to the least certain.
const (
	Exclusive Method = iota // measured: no other owner held or used the GPU
	Shared                  // apportioned by the measured activity of several owners
	Allocated               // charged for holding the device
	NumMethods
)

// String returns the value of the method label.
func (m Method) String() string { return [...]string{"exclusive", "shared", "allocated"}[m] }

// Reason says why energy is charged to no account.
type Reason int

// The reasons.
const (
	Idle     Reason = iota // nobody held or used the GPU
	Host                   // used by a process of the host
	Unmapped               // used by a process whose owner could not be named
	Unknown                // held by an allocation that is stale or whose pod is not known to live
	Gap                    // nobody was looking, and what was there before and after differs
	NumReasons
)

// String returns the value of the reason label.
func (r Reason) String() string {
	return [...]string{"idle", "host", "unmapped", "unknown", "gap"}[r]
}
