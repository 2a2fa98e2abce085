//go:build e2e

package rules_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/test/promdoc"
	"github.com/gpuledger/gpuledger/test/worlds"
)

// TestRandomHistories compares the statements of 70 random fleets, or of ten in a short run, with a walk through their samples: reboots, moves, scrape
// gaps, exporters that are away, fail-over of the scraper, pods and units of all ages, with and without an allocation. Every second
// history has two clusters with the same nodes, boards and namespaces in one store.
func TestRandomHistories(t *testing.T) {
	doc, err := promdoc.Read("../../../docs/queries.md")
	check(t, err)
	const batch = 10
	histories := 70
	if testing.Short() {
		histories = batch
	}
	for first := 0; first < histories; first += batch {
		t.Run(fmt.Sprintf("%d-%d", first, first+batch-1), func(t *testing.T) {
			t.Parallel()
			var groups []testGroup
			for seed := first; seed < first+batch; seed++ {
				h, questions := randomHistory(uint64(seed))
				var tests []expressionTest
				for _, q := range questions {
					text, err := doc.Query(q.title, q.variables)
					check(t, err)
					tests = append(tests, expect("round("+text+", 0.001) != 0", q.at, rounded(q.want)))
				}
				groups = append(groups, groupOf(h, 0, tests))
			}
			promtoolTest(t, map[string]any{"evaluation_interval": "15m"}, groups)
		})
	}
}

// rounded rounds values as PromQL does, and omits zeros: until Prometheus 3.0 a range includes its start, so an
// owner with a last sample there has a row of 0.
func rounded(values map[string]float64) map[string]float64 {
	for of, v := range values {
		if values[of] = math.Floor(v*1000+0.5) / 1000; values[of] == 0 {
			delete(values, of)
		}
	}
	return values
}

func randomHistory(seed uint64) (*worlds.History, []question) {
	random := rand.New(rand.NewPCG(seed, 7))
	all := worlds.New(15 * time.Second)
	clusters := []string{""}
	if seed%2 == 1 {
		clusters = []string{"east", "west"}
	}
	var fleets []*worlds.Fleet
	for _, cluster := range clusters {
		f := worlds.RandomFleet(random, cluster)
		fleets = append(fleets, f)
		maps.Copy(all.Series, f.Series)
	}
	counted := worlds.Span{From: time.Hour, To: worlds.RandomHours * time.Hour}
	ask := func(title string, of worlds.Span, metric string, scale float64, names ...string) question {
		want := make(map[string]float64)
		for _, f := range fleets {
			for labels, sum := range f.Sum(metric, of, worlds.By(names...)) {
				want[labels] = sum / scale
			}
		}
		return question{title, of.To, map[string]string{"window": (of.To - of.From).String(), "cluster": ".*"}, want}
	}
	hour := worlds.Span{From: counted.To - time.Hour, To: counted.To}
	unattributed := ask("Energy of each board that no pod or unit was charged for", counted, worlds.BoardEnergy, 1, "cluster", "UUID", "serial")
	for _, f := range fleets {
		for _, metric := range []string{worlds.AllocationEnergy, worlds.UnitEnergy} {
			for labels, joules := range f.Sum(metric, counted, worlds.By("cluster", "UUID", "serial")) {
				unattributed.want[labels] -= joules
			}
		}
	}
	return all, []question{
		ask("Energy of each namespace", counted, worlds.AllocationEnergy, 1, "cluster", "namespace"),
		ask("Energy of each namespace", hour, worlds.AllocationEnergy, 1, "cluster", "namespace"),
		ask("Idle energy of each namespace", counted, worlds.AllocationIdle, 1, "cluster", "namespace"),
		ask("GPU hours of each namespace", counted, worlds.AllocationGPU, 3600, "cluster", "namespace"),
		ask("Active GPU hours of each namespace", counted, worlds.AllocationActive, 3600, "cluster", "namespace"),
		ask("Energy of each unit", counted, worlds.UnitEnergy, 1, "cluster", "manager", "unit"),
		ask("Energy of each unit", hour, worlds.UnitEnergy, 1, "cluster", "manager", "unit"),
		ask("Energy of each manager", counted, worlds.UnitEnergy, 1, "cluster", "manager"),
		ask("Idle energy of each unit", counted, worlds.UnitIdle, 1, "cluster", "manager", "unit"),
		ask("GPU hours of each unit", counted, worlds.UnitGPU, 3600, "cluster", "manager", "unit"),
		ask("Active GPU hours of each unit", counted, worlds.UnitActive, 3600, "cluster", "manager", "unit"),
		ask("Energy of each board", counted, worlds.BoardEnergy, 1, "cluster", "UUID", "serial"),
		unattributed,
	}
}
