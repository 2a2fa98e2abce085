//go:build e2e

package rules_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/promdoc"
	"github.com/gpuledger/gpuledger/test/prometheus"
	"github.com/gpuledger/gpuledger/test/worlds"
)

// TestStatementsByRules checks the statements that the shipped program computes from the results of the recording
// rules.
func TestStatementsByRules(t *testing.T) {
	if testing.Short() {
		t.Skip("long: run it with make e2e")
	}
	binary, energy := program.BuiltFor(t, "gpuledger-archive"), rules("energy.yaml")
	url := serve(t, worlds.Statements().History, []string{energy, energy}) // some rules read the results of other rules
	args := []string{
		"--store.read=rules", "--store.url=" + url,
		"--from=" + began.Add(worlds.Day.From).Format(time.RFC3339), "--to=" + began.Add(worlds.Day.To).Format(time.RFC3339),
	}
	t.Run("documented queries", func(t *testing.T) { askQueries(t, url, binary, args) })
	t.Run("models", func(t *testing.T) { askModels(t, url, binary, args) })
}

func askQueries(t *testing.T, url, binary string, args []string) {
	doc, err := promdoc.Read("../../../docs/queries.md")
	check(t, err)
	until := began.Add(worlds.Day.To)
	lines := make(map[string]map[string]int64)
	for _, by := range []string{"namespace", "workload_name", "serial", "unit", "username"} {
		lines[by] = statementOf(t, binary, by, "energy_mj", args...)
	}
	groups := func(by string) map[string]int64 {
		found := maps.Clone(lines[by])
		delete(found, total)
		delete(found, unattributed)
		return found
	}
	only := func(by, line string) map[string]int64 { return map[string]int64{"": lines[by][line]} }
	const namespaces, users = "Energy of each namespace", "Energy of each user"
	for _, q := range []struct {
		label  string
		titles []string // titles of queries; each query returns one line for all pods and units without the label
		got    map[string]int64
	}{
		{"namespace", []string{namespaces, users}, groups("namespace")},
		{"workload_name", []string{"Energy of each workload", users}, groups("workload_name")},
		{"unit", []string{"Energy of each unit", namespaces}, groups("unit")},
		{"user", []string{users, namespaces}, groups("username")},
		{"", []string{"Energy of each board"}, only("serial", total)},
		{"", []string{"Energy that no pod or unit was charged for"}, only("serial", unattributed)},
		{"", []string{"Energy that no pod or unit was charged for"}, only("unit", unattributed)},
	} {
		want := make(map[string]int64)
		for _, title := range q.titles {
			text, err := doc.Query(title, map[string]string{"window": "24h", "cluster": ".*"})
			check(t, err)
			samples, err := prometheus.Query(t.Context(), url, text, until)
			check(t, err)
			if len(samples) == 0 {
				t.Errorf("%s has no result", title)
			}
			for _, s := range samples {
				want[s.Labels[q.label]] += int64(math.Round(s.Value * 1000))
			}
		}
		if diff := cmp.Diff(want, q.got); diff != "" {
			t.Errorf("%s (-documented query +program):\n%s", q.titles, diff)
		}
	}
}

// askModels checks the energy and the measured part of each model and namespace, and the price of each model.
func askModels(t *testing.T, url, binary string, args []string) {
	sum := func(amount string, by func(labels map[string]string) string) map[string]float64 {
		all := make(map[string]float64)
		for _, of := range []string{"allocation", "unit_allocation"} {
			text := fmt.Sprintf(`sum by (UUID, namespace) (sum_over_time(last_over_time(gpuledger:%s_%s:increase1h[59m])[24h:1h] offset -61m))`, of, amount)
			samples, err := prometheus.Query(t.Context(), url, text, began.Add(worlds.Day.To))
			check(t, err)
			for _, s := range samples {
				all[by(s.Labels)] += s.Value
			}
		}
		return all
	}
	ofModel := func(labels map[string]string) string { return worlds.Model(labels["UUID"]) }
	ofNamespace := func(labels map[string]string) string { return labels["namespace"] }
	same := func(name string, want map[string]float64, got map[string]int64) {
		t.Helper()
		delete(got, total)
		delete(got, unattributed)
		if len(want) != len(got) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		for group, amount := range want {
			if math.Abs(float64(got[group])-1000*amount) > 24 { // each hour is rounded separately
				t.Errorf("%s of %q: %d, want %.0f", name, group, got[group], 1000*amount)
			}
		}
	}
	charged := sum("energy_joules", ofModel)
	same("energy of models", charged, statementOf(t, binary, "model", "energy_mj", args...))
	same("measured energy of models", sum("exclusive_energy_joules", ofModel), statementOf(t, binary, "model", "exclusive_mj", args...))
	same("measured energy of namespaces", sum("exclusive_energy_joules", ofNamespace), statementOf(t, binary, "namespace", "exclusive_mj", args...))
	// A kilowatt-hour costs 100 on an A100, and 200 on an H100.
	prices := filepath.Join(t.TempDir(), "prices.csv")
	check(t, os.WriteFile(prices, []byte("model,per_kwh\nA100,100\nH100,200\n"), 0o600))
	same("cost of models", map[string]float64{"A100": charged["A100"] / 3.6e6 * 100 / 1000, "H100": charged["H100"] / 3.6e6 * 200 / 1000},
		statementOf(t, binary, "model", "cost", append(args, "--prices="+prices)...))
}

// A statement also contains these lines, which are not groups.
const total, unattributed = "total", "unattributed"

// statementOf returns one column of a statement, such as the energy in millijoules. The statement is grouped by another
// column.
func statementOf(t *testing.T, program, column, amount string, args ...string) map[string]int64 {
	t.Helper()
	by := strings.TrimSuffix(strings.TrimSuffix(column, "_name"), "name")
	c := exec.CommandContext(t.Context(), program, append([]string{"statement", "-o", "json", "--by=" + by}, args...)...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var answer struct{ Rows []map[string]any }
	check(t, json.Unmarshal(out, &answer))
	lines := make(map[string]int64)
	for _, row := range answer.Rows {
		name, _ := row[column].(string)
		if kind := row["line"].(string); kind != "group" {
			name = kind
		}
		lines[name] += int64(row[amount].(float64))
	}
	return lines
}
