//go:build e2e

package dashboards_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/test/prometheus"
)

// Boards draw 100 W each. The counter of one pod restarts. One board and its pod are old at the first scrape.
func money() []byte {
	var h history
	h.board("S1", "GPU-1", 0, end, 0, 100)
	h.pod("S1", "GPU-1", "alpha/train", 0, end, 0, 60)
	h.unit("S1", "GPU-1", "slurm/4711", 0, end, 30, 0.5)
	h.unit("S1", "GPU-1", "user/1001", 150*time.Minute, end, 10, 0)
	h.board("S2", "GPU-2", 0, end, 0, 100)
	h.pod("S2", "GPU-2", "beta/short", 150*time.Minute, end, 0, 30)
	h.pod("S2", "GPU-2", "beta/reset", 0, 210*time.Minute, 0, 20)
	h.pod("S2", "GPU-2", "beta/reset", 211*time.Minute, end, 0, 20)
	h.board("S3", "GPU-3", 150*time.Minute, end, oldJoules, 100)
	h.pod("S3", "GPU-3", "gamma/old", 150*time.Minute, end, oldJoules, 50)
	return h.bytes()
}

// TestMoney checks the totals, namespaces, pods and units in the dashboard "Energy and cost". All of them must show the
// energy of the same three hours. The queries end a millisecond before the end of the last hour, as in Grafana.
func TestMoney(t *testing.T) {
	rules, err := filepath.Abs("../../../dashboards/rules/energy.yaml")
	check(t, err)
	address := backfilled(t, "money", end, money(), rules)
	const train, short, reset, old = 3 * 60.0 / 1000, 2.5 * 30 / 1000, (3*60 - 1) * 20.0 / 60 / 1000, 2.5 * 50 / 1000 // the energy of a minute is lost in the reset
	want := map[string]map[string]float64{
		"Energy of all GPUs, full hours": {"": 0.6 + 0.25},
		"Charged to pods, full hours":    {"": train + short + reset + old},
		"Cost of the pods, full hours":   {"": (train + short + reset + old) * 1.5 * 1.5},
		"Hours counted":                  {"": 3},
		"Namespaces, full hours":         {"alpha": train, "beta": short + reset, "gamma": old},
		"Namespaces, full hours, idle":   {"alpha": train / 4, "beta": (short + reset) / 4, "gamma": old / 4},
		"Pods, full hours":               {"alpha/train": train, "beta/short": short, "beta/reset": reset, "gamma/old": old},
		"Units, full hours":              {"slurm/4711": 3 * 30.0 / 1000, "user/1001": 2.5 * 10 / 1000},
	}
	got := make(map[string]map[string]float64)
	answer := func(expr string) map[string]float64 {
		return ask(t, address, "energy", expr, began.Add(5*time.Hour-time.Millisecond), map[string]string{"__range": "10800s"})
	}
	for _, p := range read(t, "../../../dashboards/energy.json").Panels {
		if want[p.Title] != nil {
			got[p.Title] = answer(p.Targets[0].Expr)
		}
		if idle := p.Title + ", idle"; want[idle] != nil {
			got[idle] = answer(p.Targets[3].Expr)
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Errorf("kilowatt-hours (-want +got):\n%s", diff)
	}
}

// owned returns series with the teams of two namespaces and the owners of two units.
func owned() string {
	var h history
	for _, namespace := range []string{"alpha", "beta"} {
		h.counter(fmt.Sprintf(`kube_namespace_labels{namespace="%s",label_team="red"}`, namespace), 0, end, 1, 0)
	}
	h.counter(`gpuledger_unit_info{node="a",manager="slurm",unit="4711",account="physics",user="alice",uid="1000"}`, 0, end, 1, 0)
	h.counter(`gpuledger_unit_info{node="a",manager="user",unit="1001",uid="1001"}`, 150*time.Minute, end, 1, 0)
	return h.String()
}

type statementTest struct {
	name      string
	variables map[string]string
	want      map[string][]map[string]float64 // results of each query, by panel
}

// The expected values are for three hours of the histories from money() and owned().
func statementTests() []statementTest {
	const train, short, reset, old = 3 * 60.0 / 1000, 2.5 * 30 / 1000, (3*60 - 1) * 20.0 / 60 / 1000, 2.5 * 50 / 1000
	const job, user, boards, price = 3 * 30.0 / 1000, 2.5 * 10 / 1000, 0.6 + 0.25, 1.5 * 1.5
	const trainHours, shortHours, resetHours, oldHours = 3.0, 2.5, 3 - 1.0/60, 2.5
	const jobHours, userHours = 3 * 0.5, 0.0
	pods, units := train+short+reset+old, job+user
	// amounts returns the results of a table's queries: energy, its idle part, GPU hours, active GPU hours, and cost.
	amounts := func(energy, hours, active map[string]float64) []map[string]float64 {
		idle, cost := make(map[string]float64), make(map[string]float64)
		for name, kWh := range energy {
			idle[name], cost[name] = kWh/4, kWh*price
		}
		return []map[string]float64{energy, idle, hours, active, cost}
	}
	namespaces := amounts(map[string]float64{"alpha": train, "beta": short + reset, "gamma": old},
		map[string]float64{"alpha": trainHours, "beta": shortHours + resetHours, "gamma": oldHours},
		map[string]float64{"alpha": trainHours / 2, "beta": (shortHours + resetHours) / 2, "gamma": oldHours / 2})
	users := amounts(map[string]float64{"slurm physics alice": job, "user 1001": user},
		map[string]float64{"slurm physics alice": jobHours, "user 1001": userHours}, map[string]float64{"slurm physics alice": jobHours / 2, "user 1001": userHours})
	return []statementTest{
		{"all", nil, map[string][]map[string]float64{
			"Energy of all boards":   {{"": boards}},
			"Unattributed":           {{"": boards - pods - units}},
			"Cost of pods and units": {{"": (pods + units) * price}},
			"Hours counted":          {{"": 3}},
			"Teams": amounts(map[string]float64{"red": train + short + reset, "physics": job, "": old + user},
				map[string]float64{"red": trainHours + shortHours + resetHours, "physics": jobHours, "": oldHours},
				map[string]float64{"red": (trainHours + shortHours + resetHours) / 2, "physics": jobHours / 2, "": oldHours / 2}),
			"Namespaces":     namespaces,
			"Users of units": users,
		}},
		{"the pods of a namespace", map[string]string{"namespace": "alpha", "manager": "none"}, map[string][]map[string]float64{
			"Energy of all boards": {{"": boards}},
			"Unattributed":         {{"": boards - pods - units}},
			"Teams":                amounts(map[string]float64{"red": train}, map[string]float64{"red": trainHours}, map[string]float64{"red": trainHours / 2}),
			"Namespaces":           amounts(map[string]float64{"alpha": train}, map[string]float64{"alpha": trainHours}, map[string]float64{"alpha": trainHours / 2}),
			"Users of units":       {{}, {}, {}, {}, {}},
		}},
		{"the units of Slurm", map[string]string{"namespace": "none", "manager": "slurm"}, map[string][]map[string]float64{
			"Teams":      amounts(map[string]float64{"physics": job}, map[string]float64{"physics": jobHours}, map[string]float64{"physics": jobHours / 2}),
			"Namespaces": {{}, {}, {}, {}, {}},
			"Users of units": amounts(map[string]float64{"slurm physics alice": job}, map[string]float64{"slurm physics alice": jobHours},
				map[string]float64{"slurm physics alice": jobHours / 2}),
		}},
		{"the units of a user", map[string]string{"namespace": "none", "user": "1001"}, map[string][]map[string]float64{
			"Users of units": amounts(map[string]float64{"user 1001": user}, map[string]float64{"user 1001": userHours}, map[string]float64{"user 1001": userHours}),
		}},
	}
}

// TestStatement checks the values in the dashboard "Statement". The energy of teams, namespaces and users of units must
// add up to the energy of the boards. The variables must select pods and units.
func TestStatement(t *testing.T) {
	rules, err := filepath.Abs("../../../dashboards/rules/energy.yaml")
	check(t, err)
	address := backfilled(t, "statement", end, append([]byte(owned()), money()...), rules)
	for _, tt := range statementTests() {
		t.Run(tt.name, func(t *testing.T) {
			got := make(map[string][]map[string]float64)
			for _, p := range read(t, "../../../dashboards/statement.json").Panels {
				for i := range tt.want[p.Title] {
					got[p.Title] = append(got[p.Title], statementOf(t, address, p.Targets[i].Expr, tt.variables))
				}
				if n := len(tt.want[p.Title]); n > 0 && n != len(p.Targets) {
					t.Errorf("%s: %d of %d queries are checked", p.Title, n, len(p.Targets))
				}
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(1e-9, 1e-9)); diff != "" {
				t.Errorf("kilowatt-hours, hours, money (-want +got):\n%s", diff)
			}
		})
	}
}

// statementOf returns values by team, by namespace, or by manager, account and user.
func statementOf(t *testing.T, address, query string, variables map[string]string) map[string]float64 {
	t.Helper()
	given := map[string]string{"__range": "10800s"}
	maps.Copy(given, variables)
	samples, err := prometheus.Query(t.Context(), address, filled(query, "statement", given), began.Add(5*time.Hour-time.Millisecond))
	check(t, err)
	values := make(map[string]float64)
	for _, s := range samples {
		l := s.Labels
		values[strings.Join(strings.Fields(l["label_team"]+" "+l["namespace"]+" "+l["manager"]+" "+l["account"]+" "+l["user"]), " ")] = s.Value
	}
	return values
}
