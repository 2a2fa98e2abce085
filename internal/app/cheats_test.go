package app_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
)

// cheatLimit is the maximum amount by which cheating may change a charge, as a fraction of the GPU's energy.
const cheatLimit = 0.02

// TestCheats checks that a pod can change neither its own charge nor the charge of another owner, for example by
// renaming a process.
func TestCheats(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	cheating, honest, names := simnode.Cheats()
	checkCheats(t, cheating, honest, names)
}

// TestHostCheats repeats the checks of [TestCheats] with users of the host instead of pods.
func TestHostCheats(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	cheating, honest, names := simnode.HostCheats()
	checkCheats(t, cheating, honest, names)
}

// TestFleetingCheats repeats the checks of [TestCheats] on shared GPUs, for processes that end before the exporter can
// identify them.
func TestFleetingCheats(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	cheating, honest, names := simnode.FleetingCheats()
	checkCheats(t, cheating, honest, names)
}

// TestUnitCheats repeats the checks of [TestCheats] on a machine without Kubernetes.
func TestUnitCheats(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	cheating, honest, names := simnode.UnitCheats()
	checkCheats(t, cheating, honest, names)
}

// TestManagerCheats repeats the checks of [TestUnitCheats] for units that imitate the units of other managers.
func TestManagerCheats(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	cheating, honest, names := simnode.ManagerCheats()
	checkCheats(t, cheating, honest, names)
}

func checkCheats(t *testing.T, cheating, honest simnode.Scenario, names []string) {
	t.Helper()
	got, want := charges(t, cheating), charges(t, honest)
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			g, w := got[cheating.GPUs[i].UUID], want[honest.GPUs[i].UUID]
			if len(w) == 0 {
				t.Fatal("no owner is charged for the work without tricks")
			}
			payers := maps.Clone(g)
			maps.Copy(payers, w)
			for _, payer := range slices.Sorted(maps.Keys(payers)) {
				if moved := g[payer] - w[payer]; math.Abs(moved) > cheatLimit {
					t.Errorf("%s is charged %.1f %% of the GPU's energy, but %.1f %% without tricks", payer, 100*g[payer], 100*w[payer])
				}
			}
		})
	}
}

// charges runs a scenario for two minutes. It returns the shares of each GPU's energy by namespace, by unit and, for
// unattributed energy, by reason.
func charges(t *testing.T, sc simnode.Scenario) map[string]map[string]float64 {
	sc.NoTruth = true
	b := benchOf(t, sc, false)
	b.run(120)
	b.balanced()
	out := make(map[string]map[string]float64)
	for _, g := range b.node.Sampler.Latest().GPUs {
		shares := make(map[string]float64)
		for _, a := range g.Book.Accounts {
			payer := a.Scope
			if a.Kind == gpu.OwnerUnit {
				payer = a.UID
			}
			shares[payer] += float64(a.Energy.Sum()) / float64(g.Book.Energy)
		}
		for reason, e := range g.Book.Unattributed {
			if e > 0 {
				shares["("+gpu.Reason(reason).String()+")"] += float64(e) / float64(g.Book.Energy)
			}
		}
		out[g.UUID] = shares
	}
	return out
}
