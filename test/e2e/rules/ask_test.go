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
)

// TestAsk checks that statements of the shipped program by the rules have the values of the documented
// queries, to the millijoule.
func TestAsk(t *testing.T) {
	dir := t.TempDir()
	check(t, program.Build(t.Context(), dir, "gpuledger-archive"))
	doc, err := promdoc.Read("../../../docs/queries.md")
	check(t, err)
	energy := rules("energy.yaml")
	url := statements().serve(t, []string{energy, energy}) // some rules read others
	until := began.Add(day.to)
	args := []string{"--store.read=rules", "--store.url=" + url, "--from=" + began.Add(day.from).Format(time.RFC3339), "--to=" + until.Format(time.RFC3339)}
	lines := make(map[string]map[string]int64)
	for _, by := range []string{"namespace", "workload_name", "serial"} {
		lines[by] = statementOf(t, filepath.Join(dir, "gpuledger-archive"), by, args...)
	}
	groups := func(by string) map[string]int64 {
		found := maps.Clone(lines[by])
		delete(found, total)
		delete(found, unattributed)
		return found
	}
	only := func(line string) map[string]int64 { return map[string]int64{"": lines["serial"][line]} }
	for _, q := range []struct {
		title, label string
		got          map[string]int64
	}{
		{"Energy of each namespace", "namespace", groups("namespace")},
		{"Energy of each workload", "workload_name", groups("workload_name")},
		{"Energy of each board", "", only(total)},
		{"Energy that no pod was charged for", "", only(unattributed)},
	} {
		text, err := doc.Query(q.title, map[string]string{"window": "24h", "cluster": ".*"})
		check(t, err)
		samples, err := prometheus.Query(t.Context(), url, text, until)
		check(t, err)
		want := make(map[string]int64)
		for _, s := range samples {
			want[s.Labels[q.label]] += int64(math.Round(s.Value * 1000))
		}
		if diff := cmp.Diff(want, q.got); diff != "" || len(want) == 0 {
			t.Errorf("%s (-documented query +program):\n%s", q.title, diff)
		}
	}
}

// The lines of a statement that are no groups.
const total, unattributed = "total", "unattributed"

// statementOf returns the energy of the lines of a statement in millijoules.
func statementOf(t *testing.T, program, column string, args ...string) map[string]int64 {
	t.Helper()
	by := strings.TrimSuffix(column, "_name")
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
