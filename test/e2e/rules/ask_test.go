//go:build e2e

package rules_test

import (
	"encoding/json"
	"maps"
	"math"
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

// TestAsk checks that statements of the shipped program by the rules have the values of the documented
// queries, to the millijoule.
func TestAsk(t *testing.T) {
	dir := t.TempDir()
	check(t, program.Build(t.Context(), dir, "gpuledger-archive"))
	doc, err := promdoc.Read("../../../docs/queries.md")
	check(t, err)
	energy := rules("energy.yaml")
	url := serve(t, worlds.Statements().History, []string{energy, energy}) // some rules read others
	until := began.Add(worlds.Day.To)
	args := []string{"--store.read=rules", "--store.url=" + url, "--from=" + began.Add(worlds.Day.From).Format(time.RFC3339), "--to=" + until.Format(time.RFC3339)}
	lines := make(map[string]map[string]int64)
	for _, by := range []string{"namespace", "workload_name", "serial", "unit", "username"} {
		lines[by] = statementOf(t, filepath.Join(dir, "gpuledger-archive"), by, args...)
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
		titles []string // of queries: the pods and units without the label have one line
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

// The lines of a statement that are no groups.
const total, unattributed = "total", "unattributed"

// statementOf returns the energy of the lines of a statement in millijoules.
func statementOf(t *testing.T, program, column string, args ...string) map[string]int64 {
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
		lines[name] += int64(row["energy_mj"].(float64))
	}
	return lines
}
