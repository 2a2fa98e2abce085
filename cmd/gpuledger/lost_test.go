//go:build realtime

package main_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/internal/status"
	"github.com/gpuledger/gpuledger/test/exposition"
)

// TestLost removes a GPU from the bus, and then reloads the driver. Only the state of the lost GPU, the numbers of
// counter resets and the driver's numbering may change.
func TestLost(t *testing.T) {
	n := newNode(t, "dgx-h100")
	e := start(t, n, unhurried)
	// Six stages are missing, because their parts are optional: release, kernel log, AMD GPUs, Pods API, host engine
	// and unit files.
	stages := float64(len(stage.Names) - 6)
	before := e.scrapeUntil("every book has begun", func(p page) bool {
		energy := p["gpuledger_gpu_energy_joules_total"].GetMetric()
		return p.Sum("gpuledger_gpu_present", nil) == 8 && len(energy) == 8 &&
			p.Sum("gpuledger_stage_up", nil) >= stages &&
			!slices.ContainsFunc(energy, func(m *dto.Metric) bool { return exposition.Value(m) == 0 })
	})
	n.Happen(simnode.Event{Do: simnode.FallOff, GPU: 2})
	lost := e.scrapeUntil("a GPU is lost", func(p page) bool {
		return p.Sum("gpuledger_gpu_present", nil) == 7 && p.Sum("gpuledger_gpu_xid_errors_total", nil) == 1
	})
	dead := map[string]string{}
	for _, m := range lost["gpuledger_gpu_present"].GetMetric() {
		if exposition.Value(m) == 0 {
			dead["UUID"] = exposition.Labels(m)["UUID"]
		}
	}
	if lost.Sum("gpuledger_gpu_xid_last_timestamp_seconds", map[string]string{"UUID": dead["UUID"], "xid": "79"}) == 0 {
		t.Error("XID 79 of the lost GPU is missing")
	}
	checkBalance(t, lost)
	othersSame(t, before, lost, dead["UUID"], false)

	n.Happen(simnode.Event{Do: simnode.UnloadDriver}, simnode.Event{At: time.Second, Do: simnode.LoadDriver})
	e.scrapeUntil("the driver is loaded again", func(p page) bool {
		return p.Sum("gpuledger_gpu_energy_resets_total", nil) == 7
	})
	s, bodies := e.atOneMoment("/metrics")
	after := e.parse(bodies[0])
	checkBalance(t, after)
	checkRecord(t, e)
	othersSame(t, before, after, dead["UUID"], true)
	if after.Sum("gpuledger_driver_gpus", nil) != 7 || after.Sum("gpuledger_pci_gpus", nil) != 8 {
		t.Error("gpuledger_driver_gpus is not 7, or gpuledger_pci_gpus is not 8")
	}
	if diff := cmp.Diff(deadInfo(before, dead), deadInfo(after, dead)); diff != "" {
		t.Errorf("series of the lost GPU changed (-before +after):\n%s", diff)
	}
	if a, b := after.Sum("gpuledger_gpu_energy_joules_total", dead), lost.Sum("gpuledger_gpu_energy_joules_total", dead); a != b {
		t.Errorf("the energy of the lost GPU changed from %v to %v", b, a)
	}
	checkResets(t, driverReadings(t, n), s, after, dead["UUID"])
}

func deadInfo(p page, dead map[string]string) []map[string]string {
	var out []map[string]string
	for _, m := range p.Matches("gpuledger_gpu_info", dead) {
		out = append(out, exposition.Labels(m))
	}
	if len(out) != 1 || out[0]["serial"] == "" {
		return []map[string]string{{"error": fmt.Sprint("no single series with a serial number: ", out)}}
	}
	return out
}

// No series may have appeared or disappeared, except the series of the lost GPU. The labels of gpuledger_gpu_info
// contain the driver's numbering, which a reload may change.
func othersSame(t *testing.T, before, after page, dead string, renumbered bool) {
	t.Helper()
	others := func(p page) []string {
		if renumbered {
			for _, m := range p["gpuledger_gpu_info"].GetMetric() {
				for _, l := range m.Label {
					if l.GetName() == "gpu" || l.GetName() == "device" {
						l.Value = new("")
					}
				}
			}
		}
		return slices.DeleteFunc(p.Series(), func(s string) bool { return strings.Contains(s, dead) })
	}
	was, is := others(before), others(after)
	for _, s := range was {
		if !slices.Contains(is, s) {
			t.Errorf("series left: %s", s)
		}
	}
	for _, s := range is {
		if !slices.Contains(was, s) {
			t.Errorf("series came: %s", s)
		}
	}
}

// After a driver load, the exporter may discard its first readings. It tests which calls the driver supports, and it
// starts again after a renumbering of GPUs. It counts energy from one of the first attempts readings.
const attempts = 8

// Across a reload, the energy must contain the increases of the counter, but not its decrease.
func checkResets(t *testing.T, readings map[string][]reading, s status.Page, p page, dead string) {
	t.Helper()
	for uuid, read := range readings {
		if uuid == dead {
			continue
		}
		reset := slices.IndexFunc(read, func(r reading) bool { return r.energy < read[0].energy })
		if reset < 2 {
			t.Errorf("%s: the counter did not restart: %v", uuid, read)
			continue
		}
		old, fresh := read[:reset], read[reset:]
		energy := p.Millijoules("gpuledger_gpu_energy_joules_total", map[string]string{"UUID": uuid})
		book, found := bookOf(t, s, uuid), false
		for _, first := range around(old, book.From) {
			for _, base := range fresh[:min(attempts, len(fresh))] {
				for _, to := range around(fresh, book.To) {
					for _, last := range old[reset-2:] { // the reload may have interrupted the last reading
						found = found || energy == last.energy-first.energy+to.energy-base.energy
					}
				}
			}
		}
		if !found {
			t.Errorf("%s: the book from %v to %v holds %d mJ, which does not follow from the readings %v", uuid, book.From, book.To, energy, read)
		}
	}
}
