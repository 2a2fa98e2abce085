//go:build e2e

package dashboards_test

import (
	"context"
	"fmt"
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

// began is the start of the histories, and end is their length.
var began = time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)

const end = 6 * time.Hour

// Counters of boards and pods that are a hundred days old at the first scrape.
const (
	oldSeconds = 100 * 86400
	oldJoules  = 100 * oldSeconds
)

// history is a text in the OpenMetrics format with one sample per minute.
type history struct{ strings.Builder }

// counter adds a series that begins with start and grows by rate per second.
func (h *history) counter(series string, from, to time.Duration, start, rate float64) {
	for at := from; at <= to; at += time.Minute {
		fmt.Fprintf(h, "%s %f %d\n", series, start+rate*(at-from).Seconds(), began.Add(at).Unix())
	}
}

func (h *history) board(serial, gpu string, from, to time.Duration, start, watts float64) {
	labels := fmt.Sprintf(`{node="a",UUID="%s",serial="%s"}`, gpu, serial)
	h.counter("gpuledger_board_energy_joules_total"+labels, from, to, start, watts)
	h.created("board", labels, from, to, start)
}

// pod adds the energy and the seconds that a pod is charged on a GPU that it holds. The age of the
// pod at the first sample is its seconds.
func (h *history) pod(serial, gpu, name string, from, to time.Duration, start, watts float64) {
	namespace, pod, _ := strings.Cut(name, "/")
	labels := fmt.Sprintf(`{node="a",UUID="%s",serial="%s",namespace="%s",pod="%s",pod_uid="%s"}`, gpu, serial, namespace, pod, pod)
	h.counter("gpuledger_allocation_energy_joules_total"+labels, from, to, start, watts)
	h.counter("gpuledger_allocation_gpu_seconds_total"+labels, from, to, start/100, 1)
	h.created("allocation", labels, from, to, start)
}

// created adds the creation time of a counter that grew by 100 per second until the first sample.
func (h *history) created(of, labels string, from, to time.Duration, start float64) {
	h.counter("gpuledger_"+of+"_created_timestamp_seconds"+labels, from, to, float64(began.Add(from).Unix())-start/100, 0)
}

func (h *history) bytes() []byte { return []byte(h.String() + "# EOF\n") }

// money returns the history of boards of 100 W and their pods. The counter of one pod restarts, and
// one board and its pod are old at the first scrape.
func money() []byte {
	var h history
	h.board("S1", "GPU-1", 0, end, 0, 100)
	h.pod("S1", "GPU-1", "alpha/train", 0, end, 0, 60)
	h.board("S2", "GPU-2", 0, end, 0, 100)
	h.pod("S2", "GPU-2", "beta/short", 150*time.Minute, end, 0, 30)
	h.pod("S2", "GPU-2", "beta/reset", 0, 210*time.Minute, 0, 20)
	h.pod("S2", "GPU-2", "beta/reset", 211*time.Minute, end, 0, 20)
	h.board("S3", "GPU-3", 150*time.Minute, end, oldJoules, 100)
	h.pod("S3", "GPU-3", "gamma/old", 150*time.Minute, end, oldJoules, 50)
	return h.bytes()
}

// TestMoney checks that the totals, the namespaces and the pods of the dashboard Energy and cost
// show the correct energy of the same three hours. Queries end like Grafana's: up to a millisecond
// before the end of the last hour.
func TestMoney(t *testing.T) {
	rules, err := filepath.Abs("../../../dashboards/rules/energy.yaml")
	check(t, err)
	address := backfilled(t, "money", money(), rules)
	const train, short, reset, old = 3 * 60.0 / 1000, 2.5 * 30 / 1000, (3*60 - 1) * 20.0 / 60 / 1000, 2.5 * 50 / 1000 // the reset loses a minute
	want := map[string]map[string]float64{
		"Energy of all GPUs, full hours": {"": 0.6 + 0.25},
		"Charged to pods, full hours":    {"": train + short + reset + old},
		"Cost of the pods, full hours":   {"": (train + short + reset + old) * 1.5 * 1.5},
		"Hours counted":                  {"": 3},
		"Namespaces, full hours":         {"alpha": train, "beta": short + reset, "gamma": old},
		"Pods, full hours":               {"alpha/train": train, "beta/short": short, "beta/reset": reset, "gamma/old": old},
	}
	got := make(map[string]map[string]float64)
	for _, p := range read(t, "../../../dashboards/energy.json").Panels {
		if want[p.Title] != nil {
			got[p.Title] = ask(t, address, "energy", p.Targets[0].Expr, began.Add(5*time.Hour-time.Millisecond), map[string]string{"__range": "10800s"})
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Errorf("kilowatt-hours (-want +got):\n%s", diff)
	}
}

// lives returns the history of two boards of 100 W that are old at the first scrape. The counter of
// the first board restarts after two hours without scrapes. The other board has two GPUs and loses
// one of them in the end.
func lives() []byte {
	var h history
	h.board("S1", "GPU-1", 0, 2*time.Hour, oldJoules, 100)
	h.board("S1", "GPU-1", 4*time.Hour, end, 6000, 100)
	h.pod("S1", "GPU-1", "alpha/old", 0, 2*time.Hour, oldJoules, 60)
	h.pod("S1", "GPU-1", "alpha/young", 4*time.Hour, end, 6000, 100)
	for _, gpu := range []string{"GPU-2", "GPU-3"} {
		h.pod("S2", gpu, "beta/both", 0, 4*time.Hour, oldJoules, 50)
	}
	h.board("S2", "GPU-2", 0, end, oldJoules, 50)
	h.pod("S2", "GPU-2", "beta/left", 241*time.Minute, end, 3000, 50)
	h.board("S2", "GPU-3", 0, 5*time.Hour, oldJoules, 50)
	return h.bytes()
}

// TestLife checks that the dashboard GPU life shows the use in the time range, and adds up the GPUs
// of a board.
func TestLife(t *testing.T) {
	address := backfilled(t, "life", lives())
	life := read(t, "../../../dashboards/gpu-life.json")
	tests := []struct {
		name, serial string
		at           time.Duration
		want         map[string][]map[string]float64 // by panel, one for each query
	}{
		{
			"an old board and pod", "S1", end,
			map[string][]map[string]float64{
				"Energy": {{"": 0.2 + 0.2 + 6000/3.6e6}},
				"Pods and workloads": {
					2: {"alpha/old": 7200, "alpha/young": 7200 + 60},
					3: {"alpha/old": 0.12, "alpha/young": 0.2 + 6000/3.6e6},
				},
				"Power by pod": {{"alpha/young": 100}, {"": 0}},
			},
		},
		{
			"a board whose GPUs have one pod", "S2", 4 * time.Hour,
			map[string][]map[string]float64{
				"Energy": {{"": 0.4}},
				"Pods and workloads": {
					2: {"beta/both": 2 * 4 * 3600},
					3: {"beta/both": 0.4},
				},
				"Power by pod": {{"beta/both": 100}, {"": 0}},
			},
		},
		{
			"a board of which half is used", "S2", 5 * time.Hour,
			map[string][]map[string]float64{
				"Energy": {{"": 0.5}},
				"Pods and workloads": {
					2: {"beta/both": 2 * 4 * 3600, "beta/left": 3570},
					3: {"beta/both": 0.4, "beta/left": 0.05},
				},
				"Power by pod": {{"beta/left": 50}, {"": 50}},
			},
		},
		{
			"a board of which half is lost", "S2", end,
			map[string][]map[string]float64{
				"Energy": {{"": 0.55}},
				"Pods and workloads": {
					2: {"beta/both": 2 * 4 * 3600, "beta/left": 7170},
					3: {"beta/both": 0.4, "beta/left": 0.1},
				},
				"Power by pod": {{"beta/left": 50}, {"": 0}},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := make(map[string][]map[string]float64)
			for _, p := range life.Panels {
				for i, want := range tt.want[p.Title] {
					var values map[string]float64
					if want != nil {
						values = ask(t, address, "gpu-life", p.Targets[i].Expr, began.Add(tt.at),
							map[string]string{"__range": "10h", "__rate_interval": "4m", "serial": tt.serial})
					}
					got[p.Title] = append(got[p.Title], values)
				}
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(1e-9, 1e-9)); diff != "" {
				t.Errorf("seconds, kilowatt-hours, watts (-want +got):\n%s", diff)
			}
		})
	}
}

// backfilled starts a Prometheus with the history and the results of the rules for it.
func backfilled(t *testing.T, name string, history []byte, rules ...string) (address string) {
	t.Helper()
	programs, err := prometheus.FromEnv()
	check(t, err)
	s := prometheus.Server{
		Programs: programs, Group: program.OpenFor(t), Name: name, Address: program.AddressFor(t),
		Flags: []string{"--storage.tsdb.retention.time=100y"},
	}
	check(t, s.Load(t.Context(), history))
	for _, file := range rules {
		// The rules for namespaces read results of those for workloads, so they need a second run.
		for range 2 {
			check(t, s.Evaluate(t.Context(), file, began, began.Add(end)))
		}
	}
	_, err = s.Start(t.Context())
	check(t, err)
	return s.URL()
}

// ask runs a query of a dashboard and returns the values by namespace and pod. Variables that are
// not given have the values of TestPanels.
func ask(t *testing.T, address, file, query string, at time.Time, given map[string]string) map[string]float64 {
	t.Helper()
	expr := variable.ReplaceAllStringFunc(query, func(name string) string {
		if value, ok := given[name[1:]]; ok {
			return value
		}
		return selected(simnode.Scenario{}, file, name[1:])
	})
	all, err := values(t.Context(), address, expr, at)
	if err != nil {
		t.Fatalf("%v\n%s", err, expr)
	}
	return all
}

// values runs an instant query and returns the values by namespace and pod.
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
