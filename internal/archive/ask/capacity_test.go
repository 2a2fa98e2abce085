package ask_test

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

const hourMS = 3_600_000

func present(start time.Time, node, uuid, address, model string) table.GPU {
	return table.GPU{
		Node: node, UUID: uuid, Serial: "S" + strings.TrimPrefix(uuid, "GPU-"), PCIBusID: address, Model: model, SystemUUID: "of-" + node,
		First: start.Add(time.Minute), Last: start.Add(59 * time.Minute), Scrapes: 59, Energy: 1,
	}
}

func (r result) keyed(key ...string) map[string]map[string]any {
	r.t.Helper()
	all := make(map[string]map[string]any)
	for _, row := range r.rows() {
		var names []string
		for _, column := range key {
			names = append(names, fmt.Sprint(row[column]))
			delete(row, column)
		}
		all[strings.Join(names, " ")] = row
	}
	return all
}

// TestCapacity draws a random state for each GPU and hour. It compares these states with the answers about each day and
// about the last hour. A node may be silent. A GPU may be lost, or it may be present and partly allocated.
func TestCapacity(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 4))
	const length, unfiled = 66, 40
	want := make(map[string]map[string]any)
	add := func(at string, hours, n int, model, state string, ms float64) {
		for key, name := range map[string]string{"model " + at + " " + model: model, "total " + at + " TOTAL": "TOTAL"} {
			if want[key] == nil {
				want[key] = map[string]any{
					"hours": float64(hours), "gpus": 2.0, "allocated_ms": 0.0, "idle_ms": 0.0, "free_ms": 0.0, "silent_ms": 0.0, "lost_ms": 0.0, "pending_ms": nil,
				}
				if name == "TOTAL" {
					want[key]["gpus"] = 4.0
				}
			}
			want[key][state] = want[key][state].(float64) + ms
		}
	}
	var hours []*table.Hour
	for n := range length {
		if n == unfiled {
			continue
		}
		start := october.Add(time.Duration(n) * time.Hour)
		ofDay := map[int]int{0: 24, 1: 23, 2: 18}[n/24]
		moments := map[string]int{start.Truncate(24 * time.Hour).Format("2006-01-02T15:04:05.000Z"): ofDay}
		if n == length-1 {
			moments[start.Format("2006-01-02T15:04:05.000Z")] = 1
		}
		h := &table.Hour{Cluster: "east", Start: start}
		for node, model := range []string{"H100", "A100"} {
			there := []bool{random.IntN(5) > 0, random.IntN(5) > 0}
			if n == 0 {
				there = []bool{true, true}
			}
			for i := range 2 {
				state := map[bool]string{true: "lost_ms", false: "silent_ms"}[there[1-i]]
				uuid := fmt.Sprintf("GPU-%d%d", node, i)
				allocated := float64(random.IntN(3)) / 2 * hourMS
				active := allocated * float64(random.IntN(3)) / 2
				for at, count := range moments {
					switch {
					case !there[i]:
						add(at, count, n, model, state, hourMS)
					default:
						add(at, count, n, model, "allocated_ms", allocated)
						add(at, count, n, model, "idle_ms", allocated-active)
						add(at, count, n, model, "free_ms", hourMS-allocated)
					}
				}
				if there[i] {
					h.GPUs = append(h.GPUs, present(start, fmt.Sprint("n", node), uuid, fmt.Sprint(i), model))
					h.Charges = append(h.Charges, table.Charge{Node: fmt.Sprint("n", node), UUID: uuid, Namespace: "ml", Pod: "p", PodUID: uuid, Energy: 1, GPUTime: int64(allocated), Active: int64(active)})
				}
			}
		}
		hours = append(hours, h)
	}
	folder := bookstest.File(t, "csv", hours...)
	r := run(t, "capacity", "--from=2026-10-01", "--to=2026-10-03T18", "--books="+folder, "-o", "json")
	if diff := cmp.Diff(want, r.keyed("line", "time", "model")); diff != "" {
		t.Errorf("states (-drawn +got):\n%s", diff)
	}
	r.has(0, "1 of 66 hours of east are missing")
	run(t, "capacity", "--month=2026-10", "--books="+folder).has(0, "2026-10-03 17:00  1")
}

// TestCapacityReplaced checks that a lost board counts as lost until another board is at its PCI address, and that a
// moved board counts only in its new node.
func TestCapacityReplaced(t *testing.T) {
	hours := hourly(6, func(n int, h *table.Hour) {
		add := func(node, uuid, address string) {
			h.GPUs = append(h.GPUs, present(h.Start, node, uuid, address, "H100"))
		}
		add("n1", "GPU-stays", "0")
		switch {
		case n < 2:
			add("n1", "GPU-fails", "1")
		case n > 3:
			add("n1", "GPU-new", "1")
		}
		add(map[bool]string{true: "n1", false: "n2"}[n < 3], "GPU-moves", "2")
		if n == 3 { // the board moves, so both nodes have a row
			add("n1", "GPU-moves", "2")
			h.GPUs[1].First, h.GPUs[2].Last = h.Start.Add(20*time.Minute), h.Start.Add(10*time.Minute)
		}
	})
	r := run(t, "capacity", "--from=2026-10-01", "--to=2026-10-01T06", "--books="+bookstest.File(t, "csv", hours...), "-o", "json")
	day := r.keyed("line", "time", "model")["model 2026-10-01T00:00:00.000Z H100"]
	want := map[string]any{
		"hours": 6.0, "gpus": 4.0, "allocated_ms": 0.0, "idle_ms": 0.0, "free_ms": 16.0 * hourMS, "silent_ms": 0.0, "lost_ms": 2.0 * hourMS, "pending_ms": nil,
	}
	if diff := cmp.Diff(want, day); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

// TestCapacityRenamed checks that a GPU counts under the model of each hour. A driver upgrade renames the model while the
// GPU stays in its place. No hour is filed for two hours before the upgrade.
func TestCapacityRenamed(t *testing.T) {
	hours := hourly(48, func(n int, h *table.Hour) {
		g := present(h.Start, "n1", "GPU-1", "0", map[bool]string{true: "A100", false: "H100"}[n >= 30])
		h.GPUs = []table.GPU{g}
		h.Charges = []table.Charge{{Node: "n1", UUID: "GPU-1", Namespace: "ml", Pod: "p", PodUID: "u", Energy: 1, GPUTime: hourMS / 2, Active: hourMS / 2}}
	})
	hours = slices.Delete(hours, 28, 30)
	want := map[string]map[string]any{}
	for key, n := range map[string]float64{
		"model 2026-10-01T00:00:00.000Z H100": 24, "total 2026-10-01T00:00:00.000Z TOTAL": 24, "model 2026-10-02T00:00:00.000Z H100": 4,
		"model 2026-10-02T00:00:00.000Z A100": 18, "total 2026-10-02T00:00:00.000Z TOTAL": 22, "model 2026-10-02T23:00:00.000Z A100": 1, "total 2026-10-02T23:00:00.000Z TOTAL": 1,
	} {
		want[key] = map[string]any{
			"hours": n, "gpus": 1.0, "allocated_ms": n * hourMS / 2, "idle_ms": 0.0, "free_ms": n * hourMS / 2, "silent_ms": 0.0, "lost_ms": 0.0, "pending_ms": nil,
		}
	}
	for key, n := range map[string]float64{"model 2026-10-02T00:00:00.000Z H100": 22, "model 2026-10-02T00:00:00.000Z A100": 22} {
		want[key]["hours"] = n // hours of the day
	}
	for _, kind := range bookstest.Kinds {
		r := run(t, "capacity", "--from=2026-10-01", "--to=2026-10-03", "--books="+bookstest.File(t, kind, hours...), "-o", "json")
		if diff := cmp.Diff(want, r.keyed("line", "time", "model")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}

// TestPending checks the GPU hours of pending pods in a store that contains the recording rule. Other sources do not
// have these hours, so the answer must have a notice that names the rule.
func TestPending(t *testing.T) {
	record := func() *foldtest.Store {
		return boards(4*60, func(_ int, _, _ string, value float64) float64 { return value })
	}
	without := httptest.NewServer(foldtest.API{Store: record()})
	defer without.Close()
	samples := record()
	for n, gpuHours := range []float64{1.5, 0, 2.25} {
		samples.Add(resultAt(n), gpuHours, "gpuledger:pending_gpu_hours:sum", "cluster", "east")
	}
	server := httptest.NewServer(foldtest.API{Store: samples})
	defer server.Close()
	r := run(t, "capacity", "--from=2026-10-01", "--to=2026-10-01T03", "--store.url="+server.URL, "-o", "json")
	all := r.keyed("line", "time", "model")
	for key, want := range map[string]float64{"total 2026-10-01T00:00:00.000Z TOTAL": 3.75 * hourMS, "total 2026-10-01T02:00:00.000Z TOTAL": 2.25 * hourMS} {
		if got := all[key]["pending_ms"]; got != want {
			t.Errorf("%s: pending %v ms, want %v\n%s", key, got, want, r.out)
		}
	}
	r.lacks("pending GPU hours")
	folder := archived(t, &table.Hour{GPUs: []table.GPU{present(october, "n1", "GPU-0", "0", "H100")}})
	for source, want := range map[string]string{
		"--books=" + folder:          "! an archive contains no pending GPU hours: set --store.url to a store with the rule gpuledger:pending_gpu_hours:sum",
		"--store.url=" + without.URL: "! no pending GPU hours in this time: no pod was pending, or the rule gpuledger:pending_gpu_hours:sum was not evaluated",
	} {
		if r := run(t, "capacity", "--from=2026-10-01", "--to=2026-10-01T01", source); r.status != 0 || strings.Count(r.out, want) != 1 {
			t.Errorf("%s: exit status %d, no notice %q:\n%s%s", source, r.status, want, r.out, r.err)
		}
	}
	run(t, "capacity", "--from=2025-10-01", "--to=2025-10-01T01", "--books="+folder).lacks("pending")
}

// TestAges compares the boards, board years and failures by age with numbers that were calculated by hand. Board 1 is
// lost. Board 6 replaces board 5.
func TestAges(t *testing.T) {
	at := func(day, hour int) time.Time {
		return october.AddDate(0, 0, day-1).Add(time.Duration(hour) * time.Hour)
	}
	var hours []*table.Hour
	for _, x := range []struct {
		start  time.Time
		boards []int
	}{{at(1, 0), []int{1, 2, 3, 4, 5}}, {at(14, 23), []int{1, 2, 3, 4, 6}}, {at(20, 0), []int{2, 3, 4, 6}}} {
		h := &table.Hour{Cluster: "east", Start: x.start}
		for _, n := range x.boards {
			h.GPUs = append(h.GPUs, present(x.start, "n1", fmt.Sprint("GPU-", n), fmt.Sprint(min(n, 5)), "H100"))
		}
		hours = append(hours, h)
	}
	assets := file(t, "serial,purchase_date\nS1,2025-10-15\nS3,2026-08-01\nS4,2025-07-10\nS6,soon\n")
	r := run(t, "capacity", "--age", "--to=2026-10-20T01", "--books="+bookstest.File(t, "csv", hours...), "--assets="+assets, "-o", "json")
	row := func(boards float64, time time.Duration, lost, replaced float64) map[string]any {
		years := time.Hours() / 8766
		return map[string]any{"boards": boards, "board_years": years, "lost": lost, "replaced": replaced, "failures_per_board_year": (lost + replaced) / years}
	}
	const day = 24 * time.Hour
	want := map[string]map[string]any{
		"H100 0":  row(3, 19*day+time.Hour+19*day+time.Hour+time.Hour+5*day+2*time.Hour, 0, 1),
		"H100 9":  row(0, 14*day, 1, 0),
		"H100 12": row(0, 9*day, 0, 0),
		"H100 15": row(1, 10*day+time.Hour, 0, 0),
	}
	near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-5 && b-a < 1e-5 })
	if diff := cmp.Diff(want, r.keyed("model", "age_months"), near); diff != "" {
		t.Errorf("ages (-want +got):\n%s", diff)
	}
	r.has(0, "2 boards have no purchase date", "1 boards have an invalid purchase date")
}
