//go:build e2e

package dashboards_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

var began = time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)

const end = 6 * time.Hour

// These boards and pods are a hundred days old at the first scrape.
const (
	oldSeconds = 100 * 86400
	oldJoules  = 100 * oldSeconds
)

// history is in the OpenMetrics format, with one sample per minute and series.
type history struct{ strings.Builder }

// counter adds a series that begins with the value start and grows by rate per second.
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

// A quarter of the pod's energy is idle, and the pod is active for half of the time. At the first sample, the pod's age
// equals its GPU seconds.
func (h *history) pod(serial, gpu, name string, from, to time.Duration, start, watts float64) {
	namespace, pod, _ := strings.Cut(name, "/")
	labels := fmt.Sprintf(`{node="a",UUID="%s",serial="%s",namespace="%s",pod="%s",pod_uid="%s"}`, gpu, serial, namespace, pod, pod)
	h.counter("gpuledger_allocation_energy_joules_total"+labels, from, to, start, watts)
	h.counter("gpuledger_allocation_idle_energy_joules_total"+labels, from, to, start/4, watts/4)
	h.counter("gpuledger_allocation_gpu_seconds_total"+labels, from, to, start/100, 1)
	h.counter("gpuledger_allocation_active_seconds_total"+labels, from, to, start/200, 0.5)
	h.created("allocation", labels, from, to, start)
}

// A quarter of the unit's energy is idle, and the unit is active for half of the time. held is its share of the GPU.
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

// backfilled starts a Prometheus that contains the history and the results of the rules.
func backfilled(t *testing.T, name string, length time.Duration, history []byte, rules ...string) (address string) {
	t.Helper()
	programs, err := prometheus.FromEnv()
	check(t, err)
	s := prometheus.Server{
		Programs: programs, Group: program.OpenFor(t), Name: name, Address: program.AddressFor(t),
		Flags: []string{"--storage.tsdb.retention.time=100y"},
	}
	check(t, s.Load(t.Context(), history))
	for _, file := range rules {
		// The rules for namespaces read the results of the rules for workloads, so they need a second run.
		for range 2 {
			check(t, s.Evaluate(t.Context(), file, began, began.Add(length)))
		}
	}
	_, err = s.Start(t.Context())
	check(t, err)
	return s.URL()
}

// ask returns the values by namespace and pod. If given does not contain a variable, the variable has its value from
// TestDemo.
func ask(t *testing.T, address, file, query string, at time.Time, given map[string]string) map[string]float64 {
	t.Helper()
	expr := filled(query, file, given)
	all, err := values(t.Context(), address, expr, at)
	if err != nil {
		t.Fatalf("%v\n%s", err, expr)
	}
	return all
}

func filled(query, file string, given map[string]string) string {
	return variable.ReplaceAllStringFunc(query, func(name string) string {
		if value, ok := given[name[1:]]; ok {
			return value
		}
		return selected(simnode.Scenario{}, file, name[1:])
	})
}

// values returns the values by namespace and pod, or by manager, unit and user.
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
