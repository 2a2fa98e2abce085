package tenants

import (
	"fmt"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// A Result contains the energy of a GPU at the end of a simulation. Measured is the idle power that the ledger
// measured, or 0 if it measured none.
type Result struct {
	World string
	// Energy is the true energy of the GPU. Booked is the energy that the ledger counted for the GPU. Accounts is the
	// sum over the owners' accounts. All are in millijoules.
	Energy, Booked, Accounts gpu.Millijoules
	Measured                 gpu.Watts
	Tenants                  []Share
}

// A Share is a tenant's part of the GPU's energy: the true part by each definition, and the charged part.
type Share struct {
	Name                           string
	FloorShared, UserPays, Charged float64
}

// A Truth selects the true part of a tenant according to one definition.
type Truth func(Share) float64

// The package documentation explains these definitions.
var (
	FloorShared Truth = func(s Share) float64 { return s.FloorShared }
	UserPays    Truth = func(s Share) float64 { return s.UserPays }
)

// Wrong returns the part of the energy that is charged to wrong tenants: half of the sum of all errors. Energy that is
// charged to no tenant also counts as wrong.
func (r *Result) Wrong(truth Truth) float64 {
	sum, left := 0.0, 1.0
	for _, s := range r.Tenants {
		sum += abs(s.Charged - truth(s))
		left -= s.Charged
	}
	return (sum + abs(left)) / 2
}

// Worst returns the tenant with the largest error.
func (r *Result) Worst(truth Truth) (worst Share) {
	for _, s := range r.Tenants {
		if abs(s.Charged-truth(s)) >= abs(worst.Charged-truth(worst)) {
			worst = s
		}
	}
	return worst
}

// Share returns the share of the named tenant.
func (r *Result) Share(name string) Share {
	for _, s := range r.Tenants {
		if s.Name == name {
			return s
		}
	}
	return Share{}
}

func abs(x float64) float64 { return max(x, -x) }

// Run simulates a world and returns a result for each GPU.
func Run(w World) ([]Result, error) {
	readers := make([]*reader, len(w.GPUs))
	for i := range w.GPUs {
		readers[i] = newReader(i, newBoard(&w.GPUs[i], w.Driver, w.Seed+uint64(i)))
		for range w.Before.Milliseconds() + phase {
			readers[i].step()
		}
		readers[i].drain()
	}
	l := ledger.New(ledger.Config{Tick: tick, Retention: retention})
	start := readers[0].now
	for range int64(w.Length / tick) {
		for _, r := range readers {
			l.Observe(r.observe())
			for range tick.Milliseconds() {
				r.step()
			}
		}
		l.Settle(instant(readers[0].now-tick.Milliseconds()), unresolved)
	}
	var results []Result
	for _, r := range readers {
		result, err := r.result(l.State().Books[r.uuid], start)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.Name, err)
		}
		result.World = w.Name
		results = append(results, result)
	}
	return results, nil
}

// unresolved is never needed, because all owners are known from the start.
func unresolved(gpu.ProcessID) gpu.Owner { return gpu.Owner{Kind: gpu.OwnerUnmapped} }

// result compares the charges with the truth. The period begins at the ledger's first reading and ends with the last
// charged interval.
func (r *reader) result(b *ledger.BookState, start int64) (Result, error) {
	from, to := r.first, mark{}
	for _, m := range r.marks {
		if m.at == b.Settled.Boot {
			to = m
		}
	}
	if to.at == 0 || from.at != instant(start).Boot {
		return Result{}, fmt.Errorf("no truth at %v and %v", b.Settled.Boot, instant(start).Boot)
	}
	out := Result{Energy: to.counter - from.counter, Booked: b.Energy, Accounts: b.Sum(), Measured: b.IdlePower}
	truly := to.energy - from.energy
	for i := range r.workers {
		s := Share{
			Name:        r.workers[i].Name,
			FloorShared: (to.tallies[i].floorShared - from.tallies[i].floorShared) / truly,
			UserPays:    (to.tallies[i].userPays - from.tallies[i].userPays) / truly,
		}
		for _, a := range b.Accounts {
			if a.Name == s.Name {
				s.Charged += float64(a.Energy.Sum()) / float64(b.Energy)
			}
		}
		out.Tenants = append(out.Tenants, s)
	}
	return out, nil
}
