package accuracy

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A Result contains the true and the charged energies of a case, up to the end of the last charged interval.
type Result struct {
	Case
	// Energy is the true energy of the GPU. Booked is the energy that the ledger counted for the GPU. Accounts is the
	// sum over the owners' accounts.
	Energy, Booked, Accounts gpu.Millijoules
	// Slack is the share of the time in which the GPU did not work.
	Slack  float64
	Owners []Owner
}

// An Owner contains energies as shares of the GPU's energy. It represents a pod, a series of pods that replaced one
// another, or a reason for unattributed energy. The name of a reason is in brackets.
type Owner struct {
	Name string
	// Sample is set for one pod of a series. Its energy is also part of the Owner for the series.
	Sample bool
	// Truth is the true energy if the holders always share the floor. UserPays is the true energy if the working owners
	// pay the floor. Perfect is the charge by the ledger's rule with perfect samples. Charged is the charge by the
	// exporter.
	Truth, UserPays, Perfect, Charged float64
	// Bound is two standard errors of the driver's samples, or 0 if the driver takes none.
	Bound                               float64
	Previous, SMShare, Scraped, PIDInfo float64
}

// Signal is the error that the driver's samples cause.
func (o *Owner) Signal() float64 { return o.Charged - o.Perfect }

// Model is the error that gpuledger's rule causes with perfect samples.
func (o *Owner) Model() float64 { return o.Perfect - o.Truth }

// Wrong returns the share of the energy that a rule charged to wrong accounts: half of the sum of the errors.
func (r *Result) Wrong(by, truth func(Owner) float64) float64 {
	sum := 0.0
	for _, o := range r.Owners {
		if !o.Sample {
			sum += math.Abs(by(o) - truth(o))
		}
	}
	return sum / 2
}

// These functions are arguments for [Result.Wrong]. FloorShared and UserPays select a definition of the truth. The
// other functions select a rule.
var (
	FloorShared = func(o Owner) float64 { return o.Truth }
	UserPays    = func(o Owner) float64 { return o.UserPays }
	Charged     = func(o Owner) float64 { return o.Charged }
	Previous    = func(o Owner) float64 { return o.Previous }
	SMShare     = func(o Owner) float64 { return o.SMShare }
	Scraped     = func(o Owner) float64 { return o.Scraped }
	PIDInfo     = func(o Owner) float64 { return o.PIDInfo }
)

// Check returns an error if the ledger's energy differs from the sum of the accounts or from the GPU's energy. It also
// returns an error if Signal exceeds the tolerance of an owner.
func (r *Result) Check(tolerance func(Owner) float64) error {
	if r.Booked != r.Energy || r.Accounts != r.Booked {
		return fmt.Errorf("%s: the GPU consumed %d mJ, its book has %d mJ, its accounts hold %d mJ", r.Name, r.Energy, r.Booked, r.Accounts)
	}
	for _, o := range r.Owners {
		if most := tolerance(o); !r.Unseen && math.Abs(o.Signal()) > most {
			return fmt.Errorf("%s: the signal's error for %s is %+.2f %%, must be at most %.2f %%", r.Name, o.Name, 100*o.Signal(), 100*most)
		}
	}
	return nil
}

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
	sums[scraped] = sums[scraped].scaled(energy) // this rule has not charged the seconds since its last scrape
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

func (b *bench) owner(name string, members []string, sums [rules]charges, energy float64) Owner {
	share := func(by charges) (sum float64) {
		for _, m := range members {
			sum += by[m]
		}
		return sum / energy
	}
	return Owner{
		Name: name, Truth: share(sums[truth]), UserPays: share(sums[truth]) + share(sums[userPays]), Perfect: share(sums[perfect]), Charged: share(sums[charged]),
		Bound:    b.world.bound(members) / energy,
		Previous: share(sums[previous]), SMShare: share(sums[smShare]), Scraped: share(sums[scraped]), PIDInfo: share(sums[pidInfo]),
	}
}

// worst returns the member of a kind with the largest error of the samples.
func (b *bench) worst(k kind, sums [rules]charges, energy float64) (worst Owner) {
	for _, m := range k.members {
		o := b.owner("the "+strings.TrimSuffix(k.name, "s")+" with the largest error", []string{m}, sums, energy)
		if math.Abs(o.Signal()) > math.Abs(worst.Signal()) {
			worst, worst.Sample = o, true
		}
	}
	return worst
}

// A kind contains a single owner, or a series of pods that replaced one another.
type kind struct {
	name    string
	members []string
}

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

func (c *Case) kindOf(owner string) string {
	for _, p := range c.Scenario.Pods {
		if p.Lifetime > 0 && strings.HasPrefix(owner, p.Name+"-") {
			return p.Name + "s"
		}
	}
	return owner
}
