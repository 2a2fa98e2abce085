package accuracy

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A Result is what came of a case up to the moment up to which the book was settled.
type Result struct {
	Case
	// Energy is what the GPU really consumed, Booked what its book says and
	// Accounts what the accounts in it hold.
	Energy, Booked, Accounts gpu.Millijoules
	// Slack is the part of the time in which nothing ran.
	Slack  float64
	Owners []Owner
}

// An Owner is what fell to a pod, to all pods of a kind, or to nobody for a reason in
// brackets. Everything is a share of the GPU's energy.
type Owner struct {
	Name string
	// Sample is set for one pod of a kind, which the kind includes.
	Sample bool
	// Truth is what it really used, Perfect what gpuledger's rule gives it under perfect
	// sight, Charged what gpuledger charged.
	Truth, Perfect, Charged float64
	// Bound is two standard errors of the driver's samples, 0 if there are none.
	Bound float64
	// Previous, SMShare, Scraped and PIDInfo are what the other rules charged.
	Previous, SMShare, Scraped, PIDInfo float64
}

// Signal is the error of what gpuledger saw.
func (o *Owner) Signal() float64 { return o.Charged - o.Perfect }

// Model is the error of its rule under perfect sight.
func (o *Owner) Model() float64 { return o.Perfect - o.Truth }

// Wrong returns how much of the energy a rule put into wrong accounts: half the sum of the
// errors against the truth.
func (r *Result) Wrong(by func(Owner) float64) float64 {
	sum := 0.0
	for _, o := range r.Owners {
		if !o.Sample {
			sum += math.Abs(by(o) - o.Truth)
		}
	}
	return sum / 2
}

// The rules that [Result.Wrong] can be asked about.
var (
	Charged  = func(o Owner) float64 { return o.Charged }
	Previous = func(o Owner) float64 { return o.Previous }
	SMShare  = func(o Owner) float64 { return o.SMShare }
	Scraped  = func(o Owner) float64 { return o.Scraped }
	PIDInfo  = func(o Owner) float64 { return o.PIDInfo }
)

// Check reports whether the book balances, with itself and with the GPU, and whether
// the signal's error is at most an owner's tolerance.
func (r *Result) Check(tolerance func(Owner) float64) error {
	if r.Booked != r.Energy || r.Accounts != r.Booked {
		return fmt.Errorf("%s: the GPU consumed %d mJ, its book says %d mJ, its accounts hold %d mJ", r.Name, r.Energy, r.Booked, r.Accounts)
	}
	for _, o := range r.Owners {
		if most := tolerance(o); !r.Unseen && math.Abs(o.Signal()) > most {
			return fmt.Errorf("%s: the signal's error of %s is %+.2f %%, more than %.2f %%", r.Name, o.Name, 100*o.Signal(), 100*most)
		}
	}
	return nil
}

// result closes the bench.
func (b *bench) result() (Result, error) {
	g, err := b.snapshot()
	if err != nil {
		return Result{}, err
	}
	if err := b.stop(); err != nil {
		return Result{}, err
	}
	sums := b.journal.between(start.Boot+phase, g.Book.Settled.Boot)
	energy := sums[truth].sum()
	sums[scraped] = sums[scraped].scaled(energy) // its last scrape is some seconds ago
	r := Result{
		Case: b.Case, Slack: b.world.slack / b.world.steps, Energy: gpu.Millijoules(math.Round(energy)), Booked: g.Book.Energy, Accounts: g.Book.Sum(),
	}
	for _, kind := range b.kinds(sums) {
		r.Owners = append(r.Owners, b.owner(kind.name, kind.members, sums, energy))
		if len(kind.members) > 1 {
			r.Owners = append(r.Owners, b.worst(kind, sums, energy))
		}
	}
	return r, nil
}

// owner sums what fell to some owners.
func (b *bench) owner(name string, members []string, sums [rules]charges, energy float64) Owner {
	share := func(by charges) (sum float64) {
		for _, m := range members {
			sum += by[m]
		}
		return sum / energy
	}
	return Owner{
		Name: name, Truth: share(sums[truth]), Perfect: share(sums[perfect]), Charged: share(sums[charged]),
		Bound:    b.world.bound(members) / energy,
		Previous: share(sums[previous]), SMShare: share(sums[smShare]), Scraped: share(sums[scraped]), PIDInfo: share(sums[pidInfo]),
	}
}

// worst returns the one of a kind for which the signal's error is largest.
func (b *bench) worst(k kind, sums [rules]charges, energy float64) (worst Owner) {
	for _, m := range k.members {
		o := b.owner("one "+strings.TrimSuffix(k.name, "s")+", at worst", []string{m}, sums, energy)
		if math.Abs(o.Signal()) > math.Abs(worst.Signal()) {
			worst, worst.Sample = o, true
		}
	}
	return worst
}

// A kind is one owner, or pods that took one another's place.
type kind struct {
	name    string
	members []string
}

// kinds lists the owners that any rule named.
func (b *bench) kinds(sums [rules]charges) []kind {
	owners := make(map[string]bool)
	for _, c := range sums {
		for owner := range c {
			owners[owner] = true
		}
	}
	var kinds []kind
	for _, owner := range slices.Sorted(maps.Keys(owners)) {
		name := b.kindOf(owner)
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
		if i < 0 {
			i = len(kinds)
			kinds = append(kinds, kind{name: name})
		}
		kinds[i].members = append(kinds[i].members, owner)
	}
	return kinds
}

// kindOf names the pods that took one another's place as one.
func (c *Case) kindOf(owner string) string {
	for _, p := range c.Scenario.Pods {
		if p.Lifetime > 0 && strings.HasPrefix(owner, p.Name+"-") {
			return p.Name + "s"
		}
	}
	return owner
}
