package books_test

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// renamedHours is the length of the history in TestRenamed. renamings contains the number of minutes after which the
// driver reports another model for each GPU: during an hour, and at the end of a day.
const renamedHours = 4 * 24

var renamings = []int{30*60 + 20, 48*60 + 1}

// modelOf returns the model of a GPU. The names of GPU-0 are in descending order, and the names of GPU-1 in ascending
// order.
func modelOf(gpu int, renamed bool) string {
	if (gpu == 0) == renamed {
		return "A100"
	}
	return "H100"
}

// renamed returns samples of two GPUs. GPU-0 uses 1 W, and GPU-1 uses 2 W. A pod is charged for all energy.
func renamed() *foldtest.Store {
	samples := foldtest.NewStore()
	for i, minute := range renamings {
		for n := range renamedHours*60 + 1 {
			model := modelOf(i, n >= minute)
			at, joules := begin.Add(time.Duration(n)*time.Minute), float64(60*n*(i+1))
			gpu := []string{"cluster", "east", "node", "n1", "UUID", fmt.Sprint("GPU-", i), "serial", fmt.Sprint("S", i)}
			pod := append(slices.Clone(gpu), "namespace", "ml", "pod", "p", "pod_uid", "u")
			samples.Add(at, 1, "gpuledger_placement_info", append(slices.Clone(gpu), "model", model)...)
			samples.Add(at, joules, "gpuledger_board_energy_joules_total", gpu...)
			samples.Add(at, joules, "gpuledger_allocation_energy_joules_total", pod...)
		}
	}
	return samples
}

// TestRenamed compares statements by model from samples and from all kinds of archives. Both GPUs have another model
// after a driver upgrade. The energy of an hour belongs to the model at the last scrape of the hour.
func TestRenamed(t *testing.T) {
	samples := renamed()
	server := httptest.NewServer(foldtest.API{Store: samples})
	defer server.Close()
	var hours []*table.Hour
	for n := range renamedHours {
		h, err := fold.Fold(samples.Input(begin.Add(time.Duration(n) * time.Hour)))
		check(t, err)
		hours = append(hours, h)
	}
	sources := map[string]books.Source{"samples": openStore(t, server.URL, "samples")}
	for _, kind := range bookstest.Kinds {
		sources[kind] = bookstest.Open(t, bookstest.File(t, kind, hours...))
	}
	random := rand.New(rand.NewPCG(1, 4))
	periods := [][2]int{{1, renamedHours}, {24, 48}, {30, 31}, {31, 48}, {47, 49}}
	for range 8 {
		from := 1 + random.IntN(renamedHours-1)
		periods = append(periods, [2]int{from, from + 1 + random.IntN(renamedHours-from)})
	}
	for _, p := range periods {
		of := books.Query{From: begin.Add(time.Duration(p[0]) * time.Hour), Until: begin.Add(time.Duration(p[1]) * time.Hour)}
		want := make(map[string]int64)
		for n := p[0]; n < p[1]; n++ {
			for i, minute := range renamings {
				want[modelOf(i, n >= minute/60)] += int64(i+1) * 3_600_000
			}
		}
		for name, source := range sources {
			for _, by := range [][]string{{"model"}, {"hour", "model", "reason"}} {
				of.By = by
				st, err := source.Statement(t.Context(), of)
				check(t, err)
				got := make(map[string]int64)
				for _, c := range st.Charges {
					got[c.Model] += c.Energy
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s, hours %v by %v (-want +got):\n%s", name, p, by, diff)
				}
			}
		}
	}
	for _, source := range sources {
		check(t, source.Close())
	}
}

// TestFewRenamed checks that a database reads hours only for GPUs with several models on a day. The test has removed the
// hours of the other GPU on the day on which GPU-0 has another model.
func TestFewRenamed(t *testing.T) {
	samples := renamed()
	var hours []*table.Hour
	for n := range renamedHours {
		h, err := fold.Fold(samples.Input(begin.Add(time.Duration(n) * time.Hour)))
		check(t, err)
		hours = append(hours, h)
	}
	file := bookstest.File(t, "sqlite", hours...)
	day := table.Day(hours[renamings[0]/60].Start)
	execute(t, file, "delete from charges where uuid = 'GPU-1' and hour >= '"+table.Format(day)+"' and hour < '"+table.Format(day.AddDate(0, 0, 1))+"'")
	source := bookstest.Open(t, file)
	st, err := source.Statement(t.Context(), books.Query{From: day, Until: day.AddDate(0, 0, 1), By: []string{"model", "uuid"}})
	check(t, err)
	check(t, source.Close())
	got := make(map[string]int64)
	for _, c := range st.Charges {
		got[c.UUID+" "+c.Model] = c.Energy / 3_600_000
	}
	first := int64(hours[renamings[0]/60].Start.Hour())
	want := map[string]int64{"GPU-0 " + modelOf(0, false): first, "GPU-0 " + modelOf(0, true): 24 - first, "GPU-1 " + modelOf(1, false): 48}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("energy (-want +got):\n%s", diff)
	}
}

// TestModelOfCorrection corrects an hour that an operator accepted without samples. The archive then has the charges of
// the hour, but not its GPUs. These charges have the model of another hour of the day. If there is no such hour, their
// model is unknown.
func TestModelOfCorrection(t *testing.T) {
	accepted, corrected := sinktest.Complete(&table.Hour{Cluster: "east", Start: hour("east", 4).Start}), hour("east", 4)
	accepted.State, accepted.Reason = table.Gaps, "outage"
	corrected.Revision, corrected.State, corrected.Corrections = 2, table.Corrected, table.Difference(nil, corrected.Charges)
	for _, kind := range bookstest.Kinds {
		for model, hours := range map[string][]*table.Hour{"H100": {hour("east", 3), accepted, corrected}, "": {hour("west", 3), hour("east", 30), accepted, corrected}} {
			source := bookstest.Open(t, bookstest.File(t, kind, hours...))
			for _, of := range []books.Query{{From: accepted.Start, Until: accepted.Start.Add(time.Hour)}, {From: begin, Until: begin.AddDate(0, 0, 1)}} {
				of.By, of.Where = []string{"model"}, map[string][]string{"cluster": {"east"}}
				st, err := source.Statement(t.Context(), of)
				check(t, err)
				if len(st.Charges) != 1 || st.Charges[0].Model != model {
					t.Errorf("%s, %v: charges %+v, want the model %q", kind, of.Until.Sub(of.From), st.Charges, model)
				}
			}
			check(t, source.Close())
		}
	}
}
