//go:build e2e

package dashboards_test

import (
	"context"
	"fmt"
	"maps"
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

// pod adds the energy, a quarter of it idle, and the seconds, half of them active, that a pod is charged on a GPU that it
// holds. The age of the pod at the first sample is its seconds.
func (h *history) pod(serial, gpu, name string, from, to time.Duration, start, watts float64) {
	namespace, pod, _ := strings.Cut(name, "/")
	labels := fmt.Sprintf(`{node="a",UUID="%s",serial="%s",namespace="%s",pod="%s",pod_uid="%s"}`, gpu, serial, namespace, pod, pod)
	h.counter("gpuledger_allocation_energy_joules_total"+labels, from, to, start, watts)
	h.counter("gpuledger_allocation_idle_energy_joules_total"+labels, from, to, start/4, watts/4)
	h.counter("gpuledger_allocation_gpu_seconds_total"+labels, from, to, start/100, 1)
	h.counter("gpuledger_allocation_active_seconds_total"+labels, from, to, start/200, 0.5)
	h.created("allocation", labels, from, to, start)
}

// unit adds the energy, a quarter of it idle, and the seconds, half of them active, that a unit is charged on a GPU, a share of
// which it holds.
func (h *history) unit(serial, gpu, name string, from, to time.Duration, watts, held float64) {
	manager, unit, _ := strings.Cut(name, "/")
	labels := fmt.Sprintf(`{node="a",UUID="%s",serial="%s",manager="%s",unit="%s"}`, gpu, serial, manager, unit)
	h.counter("gpuledger_unit_allocation_energy_joules_total"+labels, from, to, 0, watts)
	h.counter("gpuledger_unit_allocation_idle_energy_joules_total"+labels, from, to, 0, watts/4)
	h.counter("gpuledger_unit_allocation_gpu_seconds_total"+labels, from, to, 0, held)
	h.counter("gpuledger_unit_allocation_active_seconds_total"+labels, from, to, 0, held/2)
	h.created("unit_allocation", labels, from, to, 0)
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

// TestMoney checks that the totals, namespaces, pods and units of the dashboard Energy and cost
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

// owned returns the teams of two namespaces, and the owners of two units.
func owned() string {
	var h history
	for _, namespace := range []string{"alpha", "beta"} {
		h.counter(fmt.Sprintf(`kube_namespace_labels{namespace="%s",label_team="red"}`, namespace), 0, end, 1, 0)
	}
	h.counter(`gpuledger_unit_info{node="a",manager="slurm",unit="4711",account="physics",user="alice",uid="1000"}`, 0, end, 1, 0)
	h.counter(`gpuledger_unit_info{node="a",manager="user",unit="1001",uid="1001"}`, 150*time.Minute, end, 1, 0)
	return h.String()
}

// statementTest has the values of panels of the dashboard Statement for some values of its variables.
type statementTest struct {
	name      string
	variables map[string]string
	want      map[string][]map[string]float64 // one for each query
}

// statementTests returns the values of three hours of the histories money and owned.
func statementTests() []statementTest {
	const train, short, reset, old = 3 * 60.0 / 1000, 2.5 * 30 / 1000, (3*60 - 1) * 20.0 / 60 / 1000, 2.5 * 50 / 1000
	const job, user, boards, price = 3 * 30.0 / 1000, 2.5 * 10 / 1000, 0.6 + 0.25, 1.5 * 1.5
	const trainHours, shortHours, resetHours, oldHours = 3.0, 2.5, 3 - 1.0/60, 2.5
	const jobHours, userHours = 3 * 0.5, 0.0
	pods, units := train+short+reset+old, job+user
	// amounts are the values of each query of a table: energy, its idle part, GPU hours, active GPU hours, and cost.
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

// TestStatement checks the values of the dashboard Statement: teams, namespaces and users of units add up to the boards, and
// the variables choose pods and units.
func TestStatement(t *testing.T) {
	rules, err := filepath.Abs("../../../dashboards/rules/energy.yaml")
	check(t, err)
	address := backfilled(t, "statement", append([]byte(owned()), money()...), rules)
	for _, tt := range statementTests() {
		t.Run(tt.name, func(t *testing.T) {
			got := make(map[string][]map[string]float64)
			for _, p := range read(t, "../../../dashboards/statement.json").Panels {
				for i := range tt.want[p.Title] {
					got[p.Title] = append(got[p.Title], statementOf(t, address, p.Targets[i].Expr, tt.variables))
				}
				if n := len(tt.want[p.Title]); n > 0 && n != len(p.Targets) {
					t.Errorf("%s: %d queries are checked, of %d", p.Title, n, len(p.Targets))
				}
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(1e-9, 1e-9)); diff != "" {
				t.Errorf("kilowatt-hours, hours, money (-want +got):\n%s", diff)
			}
		})
	}
}

// statementOf returns the values of a query of the dashboard Statement by team, namespace, or manager, account and user.
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

// capacity returns the history of three boards of 100 W, two of one model. The first one is held all
// the time by a pod and the second one for an hour; half of the third one is held by a job for an hour. The second one has an XID
// error, the third one is lost once.
func capacity() []byte {
	var h history
	for i, model := range []string{"A100", "H100", "H100"} {
		serial, gpu := fmt.Sprint("S", i+1), fmt.Sprint("GPU-", i+1)
		h.board(serial, gpu, 0, end, 0, 100)
		h.counter(fmt.Sprintf(`gpuledger_placement_info{node="a",UUID="%s",serial="%s",model="%s",chassis_serial="C",chassis_slot="%d"}`, gpu, serial, model, i+1), 0, end, 1, 0)
	}
	h.pod("S1", "GPU-1", "alpha/train", 0, end, 0, 60)
	h.pod("S2", "GPU-2", "beta/short", 2*time.Hour, 3*time.Hour, 0, 30)
	h.unit("S3", "GPU-3", "slurm/4711", 2*time.Hour, 3*time.Hour, 20, 0.5)
	h.counter(`gpuledger_board_xid_errors_total{node="a",UUID="GPU-2",serial="S2",xid="79"}`, 150*time.Minute, end, 1, 0)
	h.counter(`gpuledger_board_losses_total{node="a",UUID="GPU-2",serial="S2"}`, 0, end, 0, 0)
	h.counter(`gpuledger_board_losses_total{node="a",UUID="GPU-3",serial="S3"}`, 0, 149*time.Minute, 0, 0)
	h.counter(`gpuledger_board_losses_total{node="a",UUID="GPU-3",serial="S3"}`, 150*time.Minute, end, 1, 0)
	return h.bytes()
}

// TestFleet checks what the dashboard Fleet shows in the busiest hour, and of full hours one and two hours after it.
func TestFleet(t *testing.T) {
	var rules []string
	for _, name := range []string{"energy", "placement"} {
		file, err := filepath.Abs("../../../dashboards/rules/" + name + ".yaml")
		check(t, err)
		rules = append(rules, file)
	}
	address := backfilled(t, "fleet", capacity(), rules...)
	const now, peak, later = 150 * time.Minute, 4*time.Hour + 2*time.Minute, 5*time.Hour + 2*time.Minute
	tests := []struct {
		panel, model string
		at           time.Duration
		want         []map[string]float64 // one for each query
	}{
		{"GPUs present", ".*", now, []map[string]float64{{"": 3}}},
		{"GPUs allocated", ".*", now, []map[string]float64{{"": 3}}},
		{"GPUs allocated", ".*", later, []map[string]float64{{"": 1}}},
		{"GPUs free", ".*", now, []map[string]float64{{"": 0}}},
		{"GPUs free", "H100", later, []map[string]float64{{"": 2}}},
		{"Active share", ".*", now, []map[string]float64{{"": 1.25 / 3}}},
		{"GPUs allocated", "H100", now, []map[string]float64{{"": 2}}},
		{"Models", ".*", now, []map[string]float64{{"A100": 1, "H100": 2}, {"A100": 1, "H100": 2}, {"A100": 0.5, "H100": 0.75 / 2}, {"A100": 100, "H100": 200}}},
		{"Models", ".*", later, []map[string]float64{{"A100": 1, "H100": 2}, {"A100": 1, "H100": 0}, {"A100": 0.5, "H100": 0}, {"A100": 100, "H100": 200}}},
		{"GPUs free at the peak", ".*", peak, []map[string]float64{{"": 0}}},
		{"GPUs free at the peak", "H100", peak, []map[string]float64{{"": 0}}},
		{"GPUs free at the peak", "A100", peak, []map[string]float64{{"": 0}}},
		{"Allocated share", ".*", peak, []map[string]float64{{"": 3.5 / 6}}},
		{"Allocated share", "H100", peak, []map[string]float64{{"": 1.5 / 4}}},
		{"GPUs present and allocated", ".*", peak, []map[string]float64{{"": 3}, {"": 2.5}}},
		// The rules do not have the hour of the failures yet.
		{"Failures by model", ".*", now + 2*time.Minute, []map[string]float64{{"H100": 1}, {"H100": 1}}},
		{"Failures by slot", ".*", now + 2*time.Minute, []map[string]float64{{"a C 2": 1}, {"a C 3": 1}}},
		{"Failures by model", ".*", peak, []map[string]float64{{"H100": 1}, {"H100": 1}}},
		{"Failures by model", "A100", peak, []map[string]float64{{}, {}}},
		{"Failures by slot", ".*", peak, []map[string]float64{{"a C 2": 1}, {"a C 3": 1}}},
		{"Power by use", ".*", peak, []map[string]float64{{"": 0.75 * 90}, {"": 0.25 * 90}, {"": 300 - 90 - 20}, {"": 0.75 * 20}, {"": 0.25 * 20}}},
		{"Power by use", ".*", later, []map[string]float64{{"": 0.75 * 60}, {"": 0.25 * 60}, {"": 300 - 60}, {}, {}}},
	}
	for _, tt := range tests {
		for _, p := range read(t, "../../../dashboards/fleet.json").Panels {
			if p.Title != tt.panel {
				continue
			}
			var got []map[string]float64
			for _, q := range p.Targets {
				expr := filled(q.Expr, "fleet", map[string]string{"__range": "2h", "__rate_interval": "4m", "model": tt.model})
				samples, err := prometheus.Query(t.Context(), address, expr, began.Add(tt.at))
				check(t, err)
				values := make(map[string]float64)
				for _, s := range samples {
					values[strings.TrimSpace(s.Labels["model"]+s.Labels["node"]+" "+s.Labels["chassis_serial"]+" "+s.Labels["chassis_slot"])] = s.Value
				}
				got = append(got, values)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(1e-9, 1e-9)); diff != "" {
				t.Errorf("%s of %s (-want +got):\n%s", tt.panel, tt.model, diff)
			}
		}
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
	h.counter(`gpuledger_unit_info{node="a",manager="slurm",unit="4711",account="physics",user="alice",uid="1000"}`, 241*time.Minute, 5*time.Hour, 1, 0)
	h.unit("S2", "GPU-3", "slurm/4711", 241*time.Minute, 5*time.Hour, 20, 0.5)
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
		variables    map[string]string
		want         map[string][]map[string]float64 // by panel, one for each query
	}{
		{
			"an old board and pod", "S1", end, nil,
			map[string][]map[string]float64{
				"Energy": {{"": 0.2 + 0.2 + 6000/3.6e6}},
				"Pods and workloads": {
					2: {"alpha/old": 7200, "alpha/young": 7200 + 60},
					3: {"alpha/old": 0.12, "alpha/young": 0.2 + 6000/3.6e6},
				},
				"Power by pod and unit": {{"alpha/young": 100}, {"": 0}},
			},
		},
		{
			"a board with one pod on its GPUs", "S2", 4 * time.Hour, nil,
			map[string][]map[string]float64{
				"Energy": {{"": 0.4}},
				"Pods and workloads": {
					2: {"beta/both": 2 * 4 * 3600},
					3: {"beta/both": 0.4},
				},
				"Power by pod and unit": {{"beta/both": 100}, {"": 0}},
			},
		},
		{
			"a board in half use", "S2", 5 * time.Hour, nil,
			map[string][]map[string]float64{
				"Energy": {{"": 0.5}},
				"Pods and workloads": {
					2: {"beta/both": 2 * 4 * 3600, "beta/left": 3570},
					3: {"beta/both": 0.4, "beta/left": 0.05},
				},
				"Units":                 {2: {"slurm/4711": 0.5 * 3540}, 3: {"slurm/4711 alice": 0.02 * 59 / 60}},
				"Power by pod and unit": {{"beta/left": 50}, {"": 30}, {"slurm/4711": 20}},
			},
		},
		{
			"the pods of a namespace", "S2", 5 * time.Hour,
			map[string]string{"manager": "none"},
			map[string][]map[string]float64{
				"Energy":                {{"": 0.5}},
				"Pods":                  {{"": 2}},
				"Units":                 {{}, {}, {}, {}},
				"Power by pod and unit": {{"beta/left": 50}, {"": 30}, {}},
			},
		},
		{
			"the units of Slurm", "S2", 5 * time.Hour,
			map[string]string{"namespace": "none", "manager": "slurm", "unit": "4711"},
			map[string][]map[string]float64{
				"Energy":                {{"": 0.5}},
				"Pods and workloads":    {{}, {}, {}, {}},
				"Units":                 {2: {"slurm/4711": 0.5 * 3540}, 3: {"slurm/4711 alice": 0.02 * 59 / 60}},
				"Power by pod and unit": {{}, {"": 30}, {"slurm/4711": 20}},
			},
		},
		{
			"a board that lost one of its GPUs", "S2", end, nil,
			map[string][]map[string]float64{
				"Energy": {{"": 0.55}},
				"Pods and workloads": {
					2: {"beta/both": 2 * 4 * 3600, "beta/left": 7170},
					3: {"beta/both": 0.4, "beta/left": 0.1},
				},
				"Power by pod and unit": {{"beta/left": 50}, {"": 0}},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := make(map[string][]map[string]float64)
			given := map[string]string{"__range": "10h", "__rate_interval": "4m", "serial": tt.serial}
			maps.Copy(given, tt.variables)
			for _, p := range life.Panels {
				for i, want := range tt.want[p.Title] {
					var values map[string]float64
					if want != nil {
						values = ask(t, address, "gpu-life", p.Targets[i].Expr, began.Add(tt.at), given)
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
	return backfilledOver(t, name, end, history, rules...)
}

// backfilledOver does it for a history of a length.
func backfilledOver(t *testing.T, name string, length time.Duration, history []byte, rules ...string) (address string) {
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
			check(t, s.Evaluate(t.Context(), file, began, began.Add(length)))
		}
	}
	_, err = s.Start(t.Context())
	check(t, err)
	return s.URL()
}

// ask runs a query of a dashboard and returns the values by namespace and pod. Variables that are
// not given have the values of TestDemo.
func ask(t *testing.T, address, file, query string, at time.Time, given map[string]string) map[string]float64 {
	t.Helper()
	expr := filled(query, file, given)
	all, err := values(t.Context(), address, expr, at)
	if err != nil {
		t.Fatalf("%v\n%s", err, expr)
	}
	return all
}

// filled replaces the variables of a query.
func filled(query, file string, given map[string]string) string {
	return variable.ReplaceAllStringFunc(query, func(name string) string {
		if value, ok := given[name[1:]]; ok {
			return value
		}
		return selected(simnode.Scenario{}, file, name[1:])
	})
}

// values runs an instant query and returns the values by namespace and pod, or manager, unit and user.
func values(ctx context.Context, address, expr string, at time.Time) (map[string]float64, error) {
	samples, err := prometheus.Query(ctx, address, expr, at)
	if err != nil {
		return nil, err
	}
	all := make(map[string]float64)
	for _, s := range samples {
		scope, name := s.Labels["namespace"]+s.Labels["manager"], s.Labels["pod"]+s.Labels["unit"]
		all[strings.TrimSuffix(strings.TrimSpace(scope+"/"+name+" "+s.Labels["user"]), "/")] = s.Value
	}
	return all, nil
}
