package ledger

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// account opens an account with zero energy if the owner has none.
func (b *book) account(key gpu.AccountKey, opened time.Time) *gpu.Account {
	i, found := slices.BinarySearchFunc(b.Accounts, key, func(a gpu.Account, k gpu.AccountKey) int {
		return compareAccount(a.AccountKey, k)
	})
	if !found {
		b.Accounts = slices.Insert(b.Accounts, i, gpu.Account{AccountKey: key, Opened: opened})
	}
	return &b.Accounts[i]
}

func compareAccount(a, b gpu.AccountKey) int {
	return cmp.Or(cmp.Compare(a.GPUInstance, b.GPUInstance), a.Compare(b.Owner))
}

// openHolders opens an account with zero energy for each new holder before the ledger charges it. Prometheus functions
// such as rate ignore the first value of a counter, so this first value must be 0.
func (b *book) openHolders(allocations []gpu.Allocation) {
	for h := range liveAllocations(allocations) {
		a := b.account(keyOf(*h), b.Settled.Wall)
		a.LastAlive = max(a.LastAlive, b.last.At.Boot)
	}
}

// markAlive updates the time at which each owner was last on the GPU or may have held it. An owner with a listed
// allocation may hold the GPU, even if its pod seems to have ended. While the kubelet does not respond, every holder
// may still hold the GPU.
func (b *book) markAlive(iv *interval, parts []part) {
	for i := range b.Accounts {
		a := &b.Accounts[i]
		listed := func(h gpu.Allocation) bool { return h.Owner == a.Owner }
		present := func(p part) bool { return p.hasShare(a.Owner) }
		if !iv.holdersKnown && a.Allocated > 0 || slices.ContainsFunc(parts, present) || slices.ContainsFunc(iv.holders, listed) {
			a.LastAlive = max(a.LastAlive, iv.to.At.Boot)
		}
		for j := range a.Processes {
			if _, here := iv.find(a.Processes[j].ProcessID); here {
				a.Processes[j].LastAlive = iv.to.At.Boot
			}
		}
	}
}

// openProcess returns the account of a process. It deletes the account of an earlier process with the same PID, because
// both accounts would have the same series.
//
// If the limit of process accounts is reached, openProcess returns the owner's folded account, which all further
// processes of the owner share. It also returns the folded account if a later process with the same PID already has an
// account. In this case the process comes from an outdated list.
func (st *settlement) openProcess(a *gpu.Account, p *gpu.Process, opened time.Time) *gpu.ProcessAccount {
	earlier, later := false, false
	for i := range a.Processes {
		q := &a.Processes[i]
		switch {
		case q.Folded || q.PID != p.ID.PID:
		case q.Start == p.ID.Start:
			return q
		case q.Start > p.ID.Start:
			later = true
		default:
			earlier = true
		}
	}
	if earlier {
		before := len(a.Processes)
		a.Processes = slices.DeleteFunc(a.Processes, func(q gpu.ProcessAccount) bool {
			return !q.Folded && q.PID == p.ID.PID && q.Start < p.ID.Start
		})
		st.room += before - len(a.Processes)
	}
	if st.room <= 0 || later {
		return foldedProcess(a, opened)
	}
	st.room--
	// A process name may contain any bytes, but it becomes a label value, which must be valid UTF-8.
	a.Processes = append(a.Processes, gpu.ProcessAccount{
		ProcessID: p.ID, Name: strings.ToValidUTF8(p.Name, "\uFFFD"), ContainerID: p.ContainerID, StartTime: p.StartTime, Opened: opened,
	})
	return &a.Processes[len(a.Processes)-1]
}

// Folded accounts do not count towards the limit.
func (b *book) processAccounts() int {
	n := 0
	for i := range b.Accounts {
		for _, p := range b.Accounts[i].Processes {
			if !p.Folded {
				n++
			}
		}
	}
	return n
}

func foldedProcess(a *gpu.Account, opened time.Time) *gpu.ProcessAccount {
	if i := slices.IndexFunc(a.Processes, func(q gpu.ProcessAccount) bool { return q.Folded }); i >= 0 {
		return &a.Processes[i]
	}
	a.Processes = append(a.Processes, gpu.ProcessAccount{Folded: true, Opened: opened})
	return &a.Processes[len(a.Processes)-1]
}

func unitAccount(a *gpu.Account, u gpu.Unit, opened time.Time) *gpu.UnitAccount {
	if i := slices.IndexFunc(a.Units, func(k gpu.UnitAccount) bool { return k.Unit == u }); i >= 0 {
		return &a.Units[i]
	}
	a.Units = append(a.Units, gpu.UnitAccount{Unit: u, Opened: opened})
	return &a.Units[len(a.Units)-1]
}

// No energy is lost, because the owner's account also counts the energy of its processes.
func (b *book) dropProcesses() {
	for i := range b.Accounts {
		b.Accounts[i].Processes = nil
	}
}

// retire deletes accounts that have not been alive for the retention time, and adds their energy to Retired. It deletes
// all accounts of a group (the containers of a pod) at the same time. Otherwise the sum over the group would fall while
// the group exists.
func (b *book) retire(retention time.Duration) {
	limit := b.Settled.Boot - retention
	type unit struct {
		gpu.Unit
		group gpu.Owner
	}
	alive := make(map[gpu.Owner]bool)
	aliveUnits := make(map[unit]bool)
	for i := range b.Accounts {
		for _, u := range b.Accounts[i].Units {
			if u.LastAlive >= limit {
				aliveUnits[unit{u.Unit, b.Accounts[i].Group()}] = true
			}
		}
	}
	for i := range b.Accounts {
		a := &b.Accounts[i]
		a.Processes = slices.DeleteFunc(a.Processes, func(p gpu.ProcessAccount) bool {
			return !p.Folded && p.LastAlive < limit
		})
		a.Units = slices.DeleteFunc(a.Units, func(u gpu.UnitAccount) bool { return !aliveUnits[unit{u.Unit, a.Group()}] })
		if a.LastAlive >= limit {
			alive[a.Group()] = true
		}
	}
	b.Accounts = slices.DeleteFunc(b.Accounts, func(a gpu.Account) bool {
		if alive[a.Group()] {
			return false
		}
		b.Retired += a.Energy.Sum()
		return true
	})
	b.unknown.Uncredited = slices.DeleteFunc(b.unknown.Uncredited, func(c Uncredited) bool {
		return !slices.ContainsFunc(b.Accounts, func(a gpu.Account) bool { return a.AccountKey == c.AccountKey })
	})
}
