//go:build realtime

package main_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/exposition"
)

func setEngine(t *testing.T, n *simnode.Node, e simnode.Engine) {
	t.Helper()
	if err := n.SetEngine(e); err != nil {
		t.Fatal(err)
	}
}

func engineIs(up bool) func(page) bool {
	return func(p page) bool {
		stages := p.Matches("gpuledger_stage_up", map[string]string{"stage": "dcgm"})
		versions := p.Matches("gpuledger_driver_info", map[string]string{"source": "nvml", "dcgm_version": "4.6.1"})
		return len(stages) == 1 && (exposition.Value(stages[0]) == 1) == up && (len(versions) == 1) == up
	}
}

// TestEngineRestarts stops and starts the host engine while an exporter runs. No counter may decrease, and no reading
// may be rejected. The energy of each GPU must equal the increase of its board's energy counter.
func TestEngineRestarts(t *testing.T) {
	for _, scenario := range []string{"timeslice", "mig-a100"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, scenario)
			e := start(t, n, append(n.EngineFlags(client), "--tick=500ms", unhurried)...)
			last := e.scrapeUntil("the engine is up", engineIs(true))
			for i := range 2 {
				setEngine(t, n, simnode.Engine{Down: true, Starts: i})
				last = e.scrapeUntilRising(last, "the engine is down", engineIs(false))
				setEngine(t, n, simnode.Engine{Starts: i + 1})
				last = e.scrapeUntilRising(last, "the engine is up again", engineIs(true))
				last = e.scrapeUntilRising(last, "time has passed", after(2*time.Second))
			}
			s, bodies := e.atOneMoment("/metrics")
			p := e.parse(bodies[0])
			checkBalance(t, p)
			for _, name := range []string{"gpuledger_gpu_energy_resets_total", "gpuledger_gpu_readings_rejected_total"} {
				if sum := p.Sum(name, nil); sum != 0 {
					t.Errorf("%s is %v", name, sum)
				}
			}
			checkCounters(t, driverReadings(t, n), s, p)
			if shared := p.Sum("gpuledger_container_energy_joules_total", map[string]string{"method": "shared"}); shared <= 0 {
				t.Errorf("the energy with method shared is %v J, want more than 0", shared)
			}
		})
	}
}

func after(d time.Duration) func(page) bool {
	began := time.Now()
	return func(page) bool { return time.Since(began) > d }
}

// scrapeUntilRising scrapes like scrapeUntil, and compares every page with the previous page. No counter may have
// decreased, and no account may have disappeared.
func (e *exporter) scrapeUntilRising(last page, what string, ok func(page) bool) page {
	e.t.Helper()
	return e.scrapeUntil(what, func(p page) bool {
		for name, family := range last {
			if !strings.HasPrefix(name, "gpuledger_") || !strings.HasSuffix(name, "_total") {
				continue
			}
			now := make(map[string]float64)
			for _, m := range p[name].GetMetric() {
				now[fmt.Sprint(exposition.Labels(m))] = exposition.Value(m)
			}
			for _, m := range family.GetMetric() {
				if v, there := now[fmt.Sprint(exposition.Labels(m))]; !there || v < exposition.Value(m) {
					e.t.Errorf("%s%v decreased from %v to %v", name, exposition.Labels(m), exposition.Value(m), v)
				}
			}
		}
		last = p
		return ok(p)
	})
}

// If the client library or the host engine is missing, the exporter must log the error once, and must serve no values
// from the engine.
func TestNoEngine(t *testing.T) {
	n := newNode(t, "dgx-h100")
	tests := map[string]struct{ library, want string }{
		"no library": {"--dcgm.library=/nonexistent/libdcgm.so.4", "datacenter-gpu-manager-4-core"},
		"no engine":  {"--dcgm.address=/nonexistent/dcgm.sock", "is nv-hostengine running with --domain-socket"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := start(t, n, append(n.EngineFlags(client), "--tick=200ms", unhurried, "--state.path="+t.TempDir(), tt.library)...)
			e.scrapeUntil("the GPUs are read", gauges(8))
			e.scrapeUntil("the engine is down", engineIs(false))
			if log := strings.Join(e.logged(), "\n"); strings.Count(log, tt.want) != 1 {
				t.Errorf("want %q once:\n%s", tt.want, log)
			}
			if status, body := e.get("/gpu/metrics"); status != http.StatusOK || bytes.Contains(body, []byte("DCGM_FI")) {
				t.Errorf("field page: status %d, %s", status, body)
			}
		})
	}
}

// The client library does not support the older host engine of this test. The exporter must log an error with both
// versions once, and only the values from the engine may be missing. After an upgrade of the engine, the exporter must
// serve these values.
func TestOldEngine(t *testing.T) {
	n := newNode(t, "dgx-h100")
	setEngine(t, n, simnode.Engine{Version: "4.2.3"})
	e := start(t, n, append(n.EngineFlags(client), "--tick=200ms", unhurried)...)
	e.scrapeUntil("the GPUs are read", gauges(8))
	p := e.scrapeUntil("the exporter tried to reach the engine more than once", func(p page) bool {
		return p.Sum("gpuledger_stage_failures_total", map[string]string{"stage": "dcgm"}) > 5
	})
	if p.Sum("gpuledger_stage_up", map[string]string{"stage": "dcgm"}) != 0 {
		t.Error("the engine's stage is up")
	}
	lines := slices.DeleteFunc(e.logged(), func(line string) bool {
		return !strings.Contains(line, "libdcgm 4.6.1 is newer than host engine 4.2.3")
	})
	if len(lines) != 1 {
		t.Errorf("the reason is logged %d times", len(lines))
	}
	setEngine(t, n, simnode.Engine{Version: "4.6.1", Starts: 1})
	p = e.scrapeUntil("the engine is up", engineIs(true))
	if len(p.Matches("gpuledger_driver_info", map[string]string{"dcgm_version": "4.6.1", "dcgm_library_version": "4.6.1"})) != 1 {
		t.Errorf("versions are %v", p["gpuledger_driver_info"])
	}
}

// TestEngineFaults makes each engine call in turn fail, hang or return late. The exporter must continue, and count all
// energy that the boards counted.
func TestEngineFaults(t *testing.T) {
	random := rand.New(rand.NewPCG(seeded(t), 2))
	n := newNode(t, "mig")
	e := start(t, n, append(n.EngineFlags(client), "--tick=200ms", callTimeout)...)
	e.scrapeUntil("the engine is up", engineIs(true))
	for _, call := range engineCalls {
		fault := simnode.Fault{GPU: everyGPU, Call: call, Do: engineFaults[random.IntN(len(engineFaults))]}
		if err := n.SetFaults(fault); err != nil {
			t.Fatal(err)
		}
		e.testOthers(uuids(t, "mig"), fault)
	}
	if err := n.ClearFaults(); err != nil {
		t.Fatal(err)
	}
	e.scrapeUntil("the engine is up again", engineIs(true))
	s, bodies := e.atOneMoment("/metrics")
	p := e.parse(bodies[0])
	checkBalance(t, p)
	if sum := p.Sum("gpuledger_gpu_energy_resets_total", nil); sum != 0 {
		t.Errorf("%v resets", sum)
	}
	checkCounters(t, driverReadings(t, n), s, p)
}

var engineFaults = []string{"fail:-3", "fail:-21", "fail:-20", "hang", tooLate}

// engineCalls contains the calls that open a connection, watch fields and read values, by their names in the call log
// of the fake library.
var engineCalls = []string{
	"dcgmConnectTCP", "dcgmHostengineVersionInfo", "dcgmGetAllSupportedDevices", "dcgmGetGpuInstanceHierarchy",
	"dcgmFieldGroupCreate", "dcgmGroupCreate", "dcgmGroupAddEntity", "dcgmWatch", "dcgmWatchFields", "dcgmUpdateAllFields",
	"dcgmLatestValues", "dcgmLiveValues",
}

// The ticks of this exporter are half a minute apart. Requests between two ticks must not call the engine, not even
// requests for values from the engine.
func TestScrapeCallsNoEngine(t *testing.T) {
	n := newNode(t, "dgx-h100")
	e := start(t, n, append(n.EngineFlags(client), "--tick=30s", unhurried)...)
	e.scrapeUntil("the first tick is over", gauges(8))
	var before, after []string
	e.betweenTicks(func() {
		before = callLog(t, n, "engine-calls.tsv")
		for range 20 {
			e.testPages()
			if status, body := e.get("/gpu/metrics"); status != http.StatusOK || bytes.Count(body, []byte("\nDCGM_FI_")) != 8*25 {
				t.Fatalf("field page: status %d, %s", status, body)
			}
		}
		after = callLog(t, n, "engine-calls.tsv")
	})
	if len(before) == 0 {
		t.Error("the call log is empty")
	}
	if len(after) != len(before) {
		t.Errorf("the exporter called the engine %d times:\n%s", len(after)-len(before), strings.Join(after[len(before):], "\n"))
	}
}
