//go:build e2e

package rules_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/test/promdoc"
	"github.com/gpuledger/gpuledger/test/worlds"
)

// TestRandomHistories checks the statements of 200 random fleets (ten in a short run). It compares them with sums that
// the test computes from the samples, and with the archive's rows. The histories contain reboots, moves, scrape gaps,
// exporters that are down, and fail-over of the scraper. Pods and units have various ages. Some of them have no
// allocation or no owner. In every second history, one Prometheus contains two clusters with equal nodes, boards and
// namespaces.
func TestRandomHistories(t *testing.T) {
	doc, err := promdoc.Read("../../../docs/queries.md")
	check(t, err)
	const batch = 10
	histories := 200
	if testing.Short() {
		histories = batch
	}
	for first := 0; first < histories; first += batch {
		t.Run(fmt.Sprintf("%d-%d", first, first+batch-1), func(t *testing.T) {
			t.Parallel()
			var groups []testGroup
			for seed := first; seed < first+batch; seed++ {
				h, questions := randomHistory(t, uint64(seed))
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

// rounded rounds values like PromQL, and omits zeros. Before Prometheus 3.0, a range includes its start. An owner whose
// last sample is at the start then has a row with the value 0.
func rounded(values map[string]float64) map[string]float64 {
	values = maps.Clone(values)
	for of, v := range values {
		if values[of] = math.Floor(v*1000+0.5) / 1000; values[of] == 0 {
			delete(values, of)
		}
	}
	return values
}

func randomHistory(t *testing.T, seed uint64) (*worlds.History, []question) {
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
	day := worlds.Span{From: time.Hour, To: worlds.RandomHours * time.Hour}
	hour := worlds.Span{From: day.To - time.Hour, To: day.To}
	filed := map[worlds.Span]rows{day: file(t, all, clusters, day), hour: file(t, all, clusters, hour)}

	// ask returns a question with sums that the test computes from the samples. It compares these sums with the sums of
	// the archive's rows.
	ask := func(title string, of worlds.Span, scale float64, metrics []string, names ...string) question {
		want := make(map[string]float64)
		for _, f := range fleets {
			for _, metric := range metrics {
				for labels, sum := range f.Sum(metric, of, f.By(names...)) {
					want[labels] += sum
				}
			}
		}
		if diff := cmp.Diff(rounded(want), rounded(filed[of].sum(metrics, worlds.By(names...)))); diff != "" {
			t.Errorf("history %d: %s of %v (-walk +rows):\n%s", seed, title, of, diff)
		}
		for labels := range want {
			want[labels] /= scale
		}
		return question{title, of.To, map[string]string{"window": (of.To - of.From).String(), "cluster": ".*"}, want}
	}
	only := func(metric string) []string { return []string{metric} }
	questions := []question{
		ask("Energy of each namespace", day, 1, only(worlds.AllocationEnergy), "cluster", "namespace"),
		ask("Energy of each namespace", hour, 1, only(worlds.AllocationEnergy), "cluster", "namespace"),
		ask("Idle energy of each namespace", day, 1, only(worlds.AllocationIdle), "cluster", "namespace"),
		ask("GPU hours of each namespace", day, 3600, only(worlds.AllocationGPU), "cluster", "namespace"),
		ask("Active GPU hours of each namespace", day, 3600, only(worlds.AllocationActive), "cluster", "namespace"),
		ask("Energy of each workload", day, 1, only(worlds.AllocationEnergy), "cluster", "namespace", "workload_kind", "workload_name"),
		ask("Energy of each user", day, 1, only(worlds.UnitEnergy), "cluster", "user"),
		ask("Energy of each unit", day, 1, only(worlds.UnitEnergy), "cluster", "manager", "unit"),
		ask("Energy of each unit", hour, 1, only(worlds.UnitEnergy), "cluster", "manager", "unit"),
		ask("Energy of each manager", day, 1, only(worlds.UnitEnergy), "cluster", "manager"),
		ask("Idle energy of each unit", day, 1, only(worlds.UnitIdle), "cluster", "manager", "unit"),
		ask("GPU hours of each unit", day, 3600, only(worlds.UnitGPU), "cluster", "manager", "unit"),
		ask("Active GPU hours of each unit", day, 3600, only(worlds.UnitActive), "cluster", "manager", "unit"),
		ask("Energy of each board", day, 1, only(worlds.BoardEnergy), "cluster", "UUID", "serial"),
	}
	boards := ask("Energy of each board", hour, 1, only(worlds.BoardEnergy), "cluster", "UUID", "serial")
	owned := ask("Energy of each board", hour, 1, []string{worlds.AllocationEnergy, worlds.UnitEnergy}, "cluster", "UUID", "serial")
	for labels, joules := range owned.want {
		boards.want[labels] -= joules
	}
	boards.title = "Energy of each board that no pod or unit was charged for"
	return all, append(questions, boards)
}
