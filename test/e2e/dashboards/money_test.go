//go:build e2e

package dashboards_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// began is when the history of the money panels begins.
var began = time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)

// record is two boards of 100 W and their pods over six hours, a sample a minute. The
// counter of the last pod begins anew.
func record() []byte {
	var text strings.Builder
	counter := func(series string, from, to time.Duration, watts float64) {
		for at := from; at <= to; at += time.Minute {
			fmt.Fprintf(&text, "%s %v %d\n", series, watts*(at-from).Seconds(), began.Add(at).Unix())
		}
	}
	const end = 6 * time.Hour
	pod := func(board, namespace, name string) string {
		return fmt.Sprintf(`gpuledger_allocation_energy_joules_total{node="a",UUID="GPU-%s",serial="%s",namespace="%s",pod="%s",pod_uid="%s"}`, board, board, namespace, name, name)
	}
	for _, board := range []string{"S1", "S2"} {
		counter(fmt.Sprintf(`gpuledger_board_energy_joules_total{node="a",UUID="GPU-%s",serial="%s"}`, board, board), 0, end, 100)
	}
	counter(pod("S1", "alpha", "train"), 0, end, 60)
	counter(pod("S2", "beta", "short"), 150*time.Minute, end, 30)
	counter(pod("S2", "beta", "reset"), 0, 210*time.Minute, 20)
	counter(pod("S2", "beta", "reset"), 211*time.Minute, end, 20)
	text.WriteString("# EOF\n")
	return []byte(text.String())
}

// TestMoney: the totals, the namespaces and the pods of Energy and cost tell the same
// joules of the same three hours, and the true ones. The hours are asked as Grafana
// does: up to a millisecond before the last one is over.
func TestMoney(t *testing.T) {
	address := backfilled(t)
	text, err := os.ReadFile("../../../dashboards/energy.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	const train, short, reset = 3 * 60.0 / 1000, 2.5 * 30 / 1000, (3*60 - 1) * 20.0 / 60 / 1000 // a minute is lost in the reset
	want := map[string]map[string]float64{
		"Energy of all GPUs, full hours": {"": 0.6},
		"Charged to pods, full hours":    {"": train + short + reset},
		"Cost of the pods, full hours":   {"": (train + short + reset) * 1.5 * 1.5},
		"Hours counted":                  {"": 3},
		"Namespaces, full hours":         {"alpha": train, "beta": short + reset},
		"Pods, full hours":               {"alpha/train": train, "beta/short": short, "beta/reset": reset},
	}
	got := make(map[string]map[string]float64)
	for _, p := range d.Panels {
		if want[p.Title] == nil {
			continue
		}
		expr := variable.ReplaceAllStringFunc(p.Targets[0].Expr, func(name string) string {
			if name == "$__range" {
				return "10800s"
			}
			return asked(simnode.Scenario{}, "energy", name[1:])
		})
		if got[p.Title], err = values(t.Context(), address, expr, began.Add(5*time.Hour-time.Millisecond)); err != nil {
			t.Errorf("%s: %v\n%s", p.Title, err, expr)
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Errorf("kilowatt-hours (-want +got):\n%s", diff)
	}
}

// backfilled starts a Prometheus that has the record, and what the energy rules made of
// it.
func backfilled(t *testing.T) (address string) {
	t.Helper()
	programs, err := prometheus.FromEnv()
	check(t, err)
	rules, err := filepath.Abs("../../../dashboards/rules/energy.yaml")
	check(t, err)
	s := prometheus.Server{
		Programs: programs, Group: program.OpenFor(t), Name: "money", Address: program.AddressFor(t),
		Flags: []string{"--storage.tsdb.retention.time=100y"},
	}
	check(t, s.Load(t.Context(), record()))
	// The namespaces are made of the workloads, so they come with the second run.
	for range 2 {
		check(t, s.Evaluate(t.Context(), rules, began, began.Add(6*time.Hour)))
	}
	_, err = s.Start(t.Context())
	check(t, err)
	return s.URL()
}

// values asks an instant query, and returns the values by namespace and pod.
func values(ctx context.Context, address, expr string, at time.Time) (map[string]float64, error) {
	samples, err := prometheus.Query(ctx, address, expr, at)
	if err != nil {
		return nil, err
	}
	all := make(map[string]float64)
	for _, s := range samples {
		all[strings.TrimSuffix(s.Labels["namespace"]+"/"+s.Labels["pod"], "/")] = s.Value
	}
	return all, nil
}
