package app_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/exposition"
)

// unitScenarios are the machines without Kubernetes.
var unitScenarios = []string{"slurm", "slurm-v1", "workstation"}

// TestUnits checks that every unit is charged what it used, within 1 % of its GPU's energy, and
// that the main page adds up to the millijoule.
func TestUnits(t *testing.T) {
	for _, name := range unitScenarios {
		t.Run(name, func(t *testing.T) {
			b := play(t, name, false)
			checkEquation(t, b.page())
			history, err := simnode.ReadTruth(filepath.Join(b.world.Dir(), "truth.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range b.node.Sampler.Latest().GPUs {
				checkUnits(t, &g, history)
			}
		})
	}
}

// checkEquation checks that the energy of every GPU on a page is the sum of its parts.
func checkEquation(t *testing.T, text string) {
	t.Helper()
	page, err := exposition.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	mJ := func(metric, uuid string) int64 {
		return int64(math.Round(1000 * page.Sum(metric, map[string]string{"UUID": uuid})))
	}
	for _, m := range page.Matches("gpuledger_gpu_energy_joules_total", nil) {
		uuid := exposition.Labels(m)["UUID"]
		sum := int64(0)
		for _, part := range []string{"container_energy", "unit_energy", "unattributed_energy", "retired_energy"} {
			sum += mJ("gpuledger_"+part+"_joules_total", uuid)
		}
		if energy := mJ("gpuledger_gpu_energy_joules_total", uuid); energy != sum {
			t.Errorf("%s: %d mJ, its parts add up to %d mJ", uuid, energy, sum)
		}
	}
}

// checkUnits compares the accounts of a GPU with the truth over the time of its book.
func checkUnits(t *testing.T, g *gpu.GPU, history simnode.History) {
	t.Helper()
	var from, to *simnode.GPUTruth
	for i := range history {
		switch row := &history[i]; {
		case row.Time == g.Book.Opened.UnixNano():
			from = row.GPU(g.UUID)
		case row.Boot == int64(g.Book.Settled.Boot):
			to = row.GPU(g.UUID)
		}
	}
	if from == nil || to == nil {
		t.Fatalf("%s: no truth at %v or %v", g.UUID, g.Book.Opened, g.Book.Settled)
	}
	used := to.Since(from)
	for i := range g.Book.Accounts {
		a := &g.Book.Accounts[i]
		want, known := used[a.Owner]
		if off := float64(a.Energy.Sum()-want) / float64(g.Book.Energy); !known || math.Abs(off) > 0.01 {
			t.Errorf("%s: %s is charged %d mJ, it used %d mJ: off by %.2f %%", g.UUID, a.UID, a.Energy.Sum(), want, 100*off)
		}
		delete(used, a.Owner)
	}
	for o, e := range used {
		t.Errorf("%s: %s has no account and used %d mJ", g.UUID, o.UID, e)
	}
}
