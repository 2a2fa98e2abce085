//go:build realtime

package main_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

// TestHungGPU makes one driver call hang: the first call of a tick, a middle call, or the last call. Only the gauges of
// one GPU may be missing. The other GPUs, the server and the shutdown must not be affected. When the call returns, the
// GPU must be read again.
func TestHungGPU(t *testing.T) {
	tests := []struct{ scenario, call string }{
		{"dgx-h100", "nvmlDeviceGetPowerUsage"},
		{"dgx-h100", "nvmlDeviceGetComputeRunningProcesses"},
		{"dgx-h100", "nvmlDeviceGetProcessUtilization"},
		{"mi300x", "gpu_metrics"},
	}
	for _, tt := range tests {
		t.Run(tt.call, func(t *testing.T) {
			t.Parallel()
			n, call := newNode(t, tt.scenario), tt.call
			e := start(t, n, "--tick=500ms", callTimeout)
			first := e.scrapeUntil("all GPUs are read", gauges(8))
			hung := uuids(t, tt.scenario)[3]
			hang(t, n, hung, call)
			e.testHung(hung)
			if err := n.ClearFaults(); err != nil {
				t.Fatal(err)
			}
			of := map[string]string{"UUID": hung}
			stood := first.Sum("gpuledger_gpu_energy_joules_total", of)
			p := e.scrapeUntil("the GPU is back", func(p page) bool {
				return p.Sum("gpuledger_gpu_energy_joules_total", of) > stood && gauges(8)(p)
			})
			checkBalance(t, p)
			hang(t, n, hung, call)
			e.scrapeUntil("it hangs again", quarantined(hung))
			e.stop()
		})
	}
}

func hang(t *testing.T, n *simnode.Node, uuid, call string) {
	t.Helper()
	if err := n.SetFaults(simnode.Fault{GPU: uuid, Call: call, Do: "hang"}); err != nil {
		t.Fatal(err)
	}
}

func gauges(n int) func(page) bool {
	return func(p page) bool { return len(p["gpuledger_gpu_power_watts"].GetMetric()) == n }
}

// quarantined reports whether a page has gauges for seven GPUs, but not for the given GPU.
func quarantined(uuid string) func(page) bool {
	return func(p page) bool {
		return len(p.Matches("gpuledger_gpu_power_watts", map[string]string{"UUID": uuid})) == 0 && gauges(7)(p)
	}
}

// A hung GPU must be shown as present but without gauges, and its energy must not change. The other seven GPUs must be
// read at every tick.
func (e *exporter) testHung(hung string) {
	e.t.Helper()
	of := map[string]string{"UUID": hung}
	before := e.scrapeUntil("one GPU is quarantined", quarantined(hung))
	if before.Sum("gpuledger_gpu_present", nil) != 8 {
		e.t.Error("the hung GPU is not shown as present")
	}
	const name = "gpuledger_gpu_last_reading_timestamp_seconds"
	after := e.scrapeUntil("each of the other GPUs was read a few more times", func(p page) bool {
		e.testPages()
		return !slices.ContainsFunc(before.UUIDs(), func(uuid string) bool {
			of := map[string]string{"UUID": uuid}
			return uuid != hung && p.Sum(name, of)-before.Sum(name, of) < 2
		})
	})
	for _, stands := range []string{name, "gpuledger_gpu_energy_joules_total"} {
		if was, is := before.Sum(stands, of), after.Sum(stands, of); is != was {
			e.t.Errorf("%s of the hung GPU changed from %v to %v", stands, was, is)
		}
	}
	if after.Sum("gpuledger_gpu_energy_joules_total", nil) <= before.Sum("gpuledger_gpu_energy_joules_total", nil) {
		e.t.Error("the books of the other GPUs do not change")
	}
	checkBalance(e.t, after)
}

// A page that waited for the hanging call would never be served.
func (e *exporter) testPages() {
	e.t.Helper()
	for _, path := range []string{"/metrics", "/-/healthy", "/-/ready", "/inventory"} {
		if status, _ := e.get(path); status != http.StatusOK {
			e.t.Errorf("%s: status %d", path, status)
		}
	}
}

// betweenTicks calls the function do between two ticks of an exporter with --tick=30s. It repeats the call if the next
// tick may have begun in the meantime.
func (e *exporter) betweenTicks(do func()) {
	e.t.Helper()
	eventually(e.t, "requests are served between two ticks", func() bool {
		last := e.served().Time
		do()
		return e.served().Time.Equal(last) && time.Since(last) < 25*time.Second
	})
}

// The ticks of this exporter are half a minute apart. Requests between two ticks must not call the driver, with or
// without a hung GPU. Only calls that wait for XID events may be made.
func TestScrapeCallsNoDriver(t *testing.T) {
	for name, read := range map[string]int{"all well": 8, "one hung": 7} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, "dgx-h100")
			if read == 7 {
				hang(t, n, uuids(t, "dgx-h100")[3], "nvmlDeviceGetTemperature")
			}
			e := start(t, n, "--tick=30s", callTimeout)
			e.scrapeUntil("the first tick is over", gauges(read))
			var before, after []string
			e.betweenTicks(func() {
				before = driverLog(t, n)
				for range 20 {
					e.testPages()
				}
				after = driverLog(t, n)
			})
			if len(after) != len(before) {
				t.Errorf("the exporter called the driver %d times:\n%s", len(after)-len(before), strings.Join(after[len(before):], "\n"))
			}
			if len(before) < 8*20 {
				t.Errorf("the log contains only %d calls", len(before))
			}
		})
	}
}

func driverLog(t *testing.T, n *simnode.Node) []string {
	t.Helper()
	return slices.DeleteFunc(callLog(t, n, "calls.tsv"), func(line string) bool { return strings.Contains(line, "\tnvmlEventSet") })
}

func callLog(t *testing.T, n *simnode.Node, name string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(n.Dir(), "driver", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}
