package ask_test

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// boards adds the record of two boards to a store. Each draws 200 W, and all energy is charged to pods. change may
// modify each sample.
func boards(minutes int, change func(minute int, metric, uuid string, value float64) float64) *foldtest.Store {
	s := foldtest.NewStore()
	for minute := range minutes {
		at := october.Add(time.Duration(minute)*time.Minute + 7*time.Second)
		for i, uuid := range []string{"GPU-1", "GPU-2"} {
			serial := []string{"S1", "S2"}[i]
			labels := []string{"cluster", "east", "node", "n1", "UUID", uuid, "serial", serial}
			pod := append(slices.Clone(labels), "namespace", "vision", "pod", "p"+serial, "pod_uid", "uid-"+serial)
			add := func(metric string, value float64, labels ...string) {
				s.Add(at, change(minute, metric, uuid, value), metric, labels...)
			}
			add("gpuledger_placement_info", 1, append(slices.Clone(labels), "chassis_serial", "C1", "pci_bus_id", uuid)...)
			add("gpuledger_board_energy_joules_total", float64(12_000*minute), labels...)
			add("gpuledger_board_created_timestamp_seconds", float64(october.Unix()), labels...)
			add("gpuledger_allocation_energy_joules_total", float64(12_000*minute), pod...)
			add("gpuledger_allocation_created_timestamp_seconds", float64(october.Unix()), pod...)
			if serial == "S1" {
				s.Add(at, 1, "gpuledger_pod_info", append([]string{"cluster", "east"}, pod[8:]...)...)
			}
		}
	}
	return s
}

// TestRefusedHours checks an hour whose record in a store is impossible. It must have no energy and no cost, and all
// questions must be answered. All answers except for moves and missing must contain a notice.
func TestRefusedHours(t *testing.T) {
	for name, change := range map[string]func(minute int, metric, uuid string, value float64) float64{
		"exceed the energy": func(minute int, metric, uuid string, value float64) float64 {
			if uuid == "GPU-1" && minute >= 150 && metric == "gpuledger_allocation_energy_joules_total" {
				return value + 1
			}
			return value
		},
		"rises by 1012000.000 J from 2026-10-01 02:29:07": func(minute int, metric, uuid string, value float64) float64 {
			if uuid == "GPU-1" && minute >= 150 && strings.HasSuffix(metric, "energy_joules_total") {
				return value + 1e6
			}
			return value
		},
	} {
		server := httptest.NewServer(foldtest.API{Store: boards(5*60, change)})
		defer server.Close()
		for question, want := range map[string]string{
			"where S1":   "S1",
			"where C1":   "S2",
			"history S1": "2026-10-01 00:00",
			"ran S1":     "vision",
			"moves":      "",
			"missing":    "",
			"statement":  "1.593",
			"report S1":  "Board S1",
		} {
			args := append(strings.Fields(question), "--store.url="+server.URL, "--from=2026-10-01", "--to=2026-10-01T05", "--store.read=samples")
			r := run(t, args...)
			if r.status != 0 || !strings.Contains(r.out, want) {
				t.Errorf("%s: %s: exit status %d, want 0 with %q:\n%s%s", name, question, r.status, want, r.out, r.err)
			}
			notice := strings.Contains(r.out, "hour 2026-10-01 02:00 of east is refused") && strings.Contains(r.out, "board S1") && strings.Contains(r.out, name)
			if places := question == "moves" || question == "missing"; !places && !notice {
				t.Errorf("%s: %s does not report the hour and the board:\n%s", name, question, r.out)
			}
		}
		r := run(t, "statement", "--store.url="+server.URL, "--from=2026-10-01", "--to=2026-10-01T05", "--store.read=samples", "--by=pod", "--prices="+file(t, "from,per_kwh,currency\n2026-01-01,1,EUR\n"))
		// This is the energy of two boards with 200 W in four hours, without the minute before the first scrape.
		for _, want := range []string{"incomplete: 1 of 5 hours of east are refused", "1.593"} {
			if !strings.Contains(r.out, want) || r.status != 0 {
				t.Errorf("%s: statement: exit status %d, no %q:\n%s%s", name, r.status, want, r.out, r.err)
			}
		}
		r = run(t, "verify", "--store.url="+server.URL, "--from=2026-10-01", "--to=2026-10-01T05", "--store.read=samples", "-o", "csv")
		if r.status != 1 || !strings.Contains(r.out, "east,5,5,,0,0,1,1,") || !strings.Contains(r.err, "unknown pod vision/pS2 (uid-S2) of east: 0.797 kWh in 5 hours") {
			t.Errorf("%s: verify: exit status %d:\n%s%s", name, r.status, r.out, r.err)
		}
	}
}

// TestUnknownPods checks the notice about pods in an archive that no series names.
func TestUnknownPods(t *testing.T) {
	for _, format := range files.Formats() {
		var hours []*table.Hour
		for n := range 3 {
			h := &table.Hour{Cluster: "east", Start: october.Add(time.Duration(n) * time.Hour), GPUs: []table.GPU{{Node: "n1", UUID: "GPU-1", Energy: kWh}}, Charges: []table.Charge{
				{Node: "n1", UUID: "GPU-1", Namespace: "ml", Pod: "p", PodUID: "u", Energy: kWh / 2},
				{Node: "n1", UUID: "GPU-1", Namespace: "ml", Pod: "forged", PodUID: "f", Energy: kWh / 2},
			}, Pods: []table.Pod{{Namespace: "ml", Pod: "p", PodUID: "u"}}}
			if n > 0 {
				h.UnknownPods = []table.PodID{{Namespace: "ml", Pod: "forged", UID: "f"}}
			}
			hours = append(hours, h)
		}
		r := run(t, "verify", "--books="+bookstest.File(t, format, hours...), "--from=2026-10-01", "--to=2026-10-01T03")
		if r.status != 0 || !strings.Contains(r.out, "! unknown pod ml/forged (f) of east: 1.000 kWh in 2 hours") || strings.Contains(r.out, "ml/p ") {
			t.Errorf("%s: exit status %d:\n%s%s", format, r.status, r.out, r.err)
		}
	}
}
