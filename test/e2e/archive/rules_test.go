//go:build e2e

package archive_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// TestAskRules compares statements from recording rules with statements from samples, for pods and for units.
func TestAskRules(t *testing.T) {
	if testing.Short() {
		t.Skip("long: run it with make e2e")
	}
	t.Parallel()
	// The period ends after boards were swapped, a board was lost, and a job ended.
	const ruled = 32 * time.Hour
	server := loaded(t, prometheus.Env, program.OpenFor(t), "store", newLife(false).OpenMetrics())
	for range 2 { // some rules read other rules
		check(t, server.Evaluate(t.Context(), "../../../dashboards/rules/energy.yaml", began, began.Add(ruled+2*time.Hour)))
	}
	started(t, server)
	end := began.Add(ruled).Format(time.RFC3339)
	list := filepath.Join(t.TempDir(), "prices.csv")
	check(t, os.WriteFile(list, []byte("from,model,per_kwh,per_gpu_hour,currency\n2026-03-01,,0.2,1,EUR\n2026-03-01,NVIDIA H100 80GB HBM3,0.4,2,EUR\n2026-03-01T12:00:00Z,,0.3,,EUR\n"), 0o600))
	prices := " --prices=" + list
	for _, question := range []string{
		"statement", "statement --by=namespace", "statement --by=workload", "statement --by=team", "statement --by=user", "statement --by=team,user",
		"statement --by=unit", "statement --by=unit,serial", "statement --by=serial", "statement --by=pod", "statement --by=cluster", "idle", "idle --by=unit",
		"statement --by=model", "statement --by=namespace,model", "statement --by=team" + prices, "statement --by=user" + prices, "idle --by=model" + prices,
	} {
		var answers [2][]map[string]any
		for i, read := range []string{"samples", "rules"} {
			a := ask(t, append(until(question, end), "-o", "json", "--store.url="+server.URL(), "--store.read="+read, "--from=2026-03-01T01")...)
			if a.status != 0 || len(a.Rows) < 2 {
				t.Errorf("%s from %s: exit status %d: %s", question, read, a.status, a.errors)
			}
			if strings.Contains(question, "user") && !strings.Contains(a.out, `"alice"`) {
				t.Errorf("%s from %s: the user of the job is missing:\n%s", question, read, a.out)
			}
			if notices := strings.Join(a.Notices, "\n"); strings.Contains(notices, "unit") || strings.Contains(notices, "differ") {
				t.Errorf("%s from %s: %s", question, read, notices)
			}
			answers[i] = a.Rows
		}
		if diff := cmp.Diff(answers[0], answers[1]); diff != "" {
			t.Errorf("%s (-samples +rules):\n%s", question, diff)
		}
	}
	proved := ask(t, append(until("verify --prove", end), "-o", "json", "--store.url="+server.URL(), "--from=2026-03-01T01")...)
	if proved.status != 0 || len(proved.Rows) != 2 || proved.Rows[0]["digest"] != proved.Rows[1]["digest"] || proved.Rows[0]["gpu_ms"] == 0.0 {
		t.Errorf("verify --prove: exit status %d\n%s%s", proved.status, proved.out, proved.errors)
	}
}
