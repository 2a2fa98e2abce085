//go:build e2e

package rules_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/gpuledger/gpuledger/test/worlds"
)

// TestMoveAlerts compares the alerts about moved and lost boards with the events in 200 random fleets, minute by
// minute. Each event must raise one alert, and there must be no other alerts. An alert must begin within six minutes
// and last at most three hours.
//
// As in a real Prometheus, the hourly rule is evaluated at a random minute of the hour. The alerts are evaluated every
// five minutes, beginning at a random minute. In every fifth history, they are evaluated every minute.
func TestMoveAlerts(t *testing.T) {
	histories, fleets := 20, 10 // number of fleets in one history; one history is cheaper than several
	if testing.Short() {
		histories, fleets = 2, 4
	}
	for seed := range uint64(histories) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 38))
			f := worlds.RandomMoves(random, fleets)
			interval, phase := 5*time.Minute, time.Duration(random.IntN(5))*time.Minute
			if seed%5 == 0 {
				interval, phase = time.Minute, 0
			}
			files := rulesAt(t, phase+interval*time.Duration(random.Int64N(int64(time.Hour/interval))))
			var tests []expressionTest
			want := make(map[string]float64)
			for _, e := range f.Events {
				labels := worlds.With(e.Place, "alertname", e.Alert)
				want[worlds.Some(labels, "alertname", "node", "UUID", "pci_bus_id")] = 1
			}
			const all = `ALERTS{alertstate="firing"}`
			group := func(expr string) string { return "group by (alertname, node, UUID, pci_bus_id) (" + expr + ")" }
			end := f.Length() - phase // time since the first evaluation
			// Every event has raised an alert, and every alert belongs to an event.
			tests = append(tests, expect(group(fmt.Sprintf("count_over_time(%s[%s])", all, end)), end, want))
			// An alert fires only once, so its number of samples equals the number of evaluations from its first to
			// its last sample.
			bound := func(f string) string {
				return fmt.Sprintf("%s by (alertname, node, UUID, pci_bus_id) (%s_over_time(timestamp(%s)[%s:1m]))", f, f, all, end)
			}
			count := fmt.Sprintf("sum by (alertname, node, UUID, pci_bus_id) (count_over_time(%s[%s]))", all, end)
			tests = append(tests,
				expect(fmt.Sprintf("(%s - %s) / %.0f + 1 != %s", bound("max"), bound("min"), interval.Seconds(), count), end, nil),
				expect(fmt.Sprintf("(%s - 1) * %.0f > 3 * 60", count, interval.Minutes()), end, nil))
			for _, e := range f.Events {
				labels := worlds.With(e.Place, "alertname", e.Alert)
				tests = append(tests, expect(group("ALERTS"+worlds.Some(labels, "alertname", "node", "UUID")), e.At+6*time.Minute-phase,
					map[string]float64{worlds.Some(labels, "alertname", "node", "UUID", "pci_bus_id"): 1}))
			}
			runTests(t, files, map[string]any{"evaluation_interval": interval.String()}, []testGroup{groupOf(f.History, phase, tests)})
		})
	}
}

// rulesAt writes the rule for placements and the alerts about them. promtool evaluates all rules at every interval.
// Therefore rulesAt changes the rule for placements: it has a result only at the given minute of each hour.
func rulesAt(t *testing.T, minute time.Duration) []string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"placement.yaml", "alerts.yaml"} {
		text, err := os.ReadFile(rules(name))
		check(t, err)
		var file struct {
			Groups []map[string]any `json:"groups"`
		}
		check(t, yaml.Unmarshal(text, &file))
		file.Groups = slices.DeleteFunc(file.Groups, func(g map[string]any) bool {
			return g["name"] != "gpuledger-placement" && g["name"] != "gpuledger-moves"
		})
		if len(file.Groups) != 1 {
			t.Fatalf("%s has %d groups of rules for placements and moves", name, len(file.Groups))
		}
		rules := slices.DeleteFunc(file.Groups[0]["rules"].([]any), func(rule any) bool {
			alert, ok := rule.(map[string]any)["alert"].(string)
			return ok && !slices.Contains([]string{"GPULedgerGPUReplaced", "GPULedgerGPUMoved", "GPULedgerChassisChanged"}, alert)
		})
		file.Groups[0]["rules"] = rules
		if name == "placement.yaml" {
			rule := rules[0].(map[string]any)
			rule["expr"] = fmt.Sprintf("(%s) and on () vector(time()) %% 3600 == %.0f", rule["expr"], minute.Seconds())
		}
		text, err = json.Marshal(file)
		check(t, err)
		check(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	return glob(t, filepath.Join(dir, "*.yaml"))
}
