package ask_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestTensor checks the tensor-active time of three teams, and their energy per tensor-active second. Half of the first
// team's time was profiled, the second team has no tensor activity, and the third team has no profiled time. A fourth
// team used a GPU for an hour without holding it, as users of a machine can do. A statement without profiled time must
// omit the columns.
func TestTensor(t *testing.T) {
	h := &table.Hour{Cluster: "east", Start: october, GPUs: []table.GPU{{Node: "n1", UUID: "GPU-1", First: october, Last: october, Scrapes: 1}}}
	add := func(team string, profiled, tensor *int64) {
		// The energy is 1 kWh per hour.
		c := table.Charge{Node: "n1", UUID: "GPU-1", Namespace: "ml", Pod: team, PodUID: team, Team: team, Energy: kWh, Held: 3_600_000, Profiled: profiled, TensorActive: tensor, DRAMActive: tensor}
		h.GPUs[0].Energy += c.Energy
		h.Charges = append(h.Charges, c)
	}
	add("blue", new(int64(1_800_000)), new(int64(900_000)))
	add("green", new(int64(3_600_000)), new(int64(0)))
	add("red", nil, nil)
	add("users", new(int64(3_600_000)), new(int64(900_000)))
	h.Charges[3].Held, h.Charges[3].Active = 0, 1_800_000
	without := *h
	without.Start, without.Charges = october.AddDate(0, -1, 0), h.Charges[2:3]
	without.GPUs = []table.GPU{h.GPUs[0]}
	without.GPUs[0].Energy = kWh
	folder := bookstest.File(t, "csv", h, &without)
	// Half of 3.6 MJ in 900 s is 2000 J/s. In all, 9 MJ were used in 2.5 of 4 profiled hours.
	want := `line,team,profiled_share,tensor_active_ms,dram_active_ms,joules_per_tensor_second
group,blue,0.5,900000,900000,2000
group,green,1,0,0,
group,red,,,,
group,users,1,900000,900000,4000
total,TOTAL,0.625,1800000,1800000,5000
`
	r := run(t, "statement", "--by=team", "--month=2026-10", "-o", "csv", "--books="+folder)
	if diff := cmp.Diff(want, selected(r.out, strings.Split(strings.SplitN(want, "\n", 2)[0], ","))); diff != "" {
		t.Errorf("-want +got:\n%s\n%s%s", diff, r.out, r.err)
	}
	r = run(t, "statement", "--by=team", "--month=2026-10", "--books="+folder)
	text := `TEAM            KWH    IDLE   MEASURED  ESTIMATED  GPU HOURS  ACTIVE HOURS  BUSY HOURS  PROFILED  TENSOR HOURS  J PER TENSOR S
blue            1.000  0.0 %  0.0 %     0.0 %      0.00       0.00          0.00        50.0 %    0.25          2000.00
green           1.000  0.0 %  0.0 %     0.0 %      0.00       0.00          0.00        100.0 %   0.00          -
red             1.000  0.0 %  0.0 %     0.0 %      0.00       0.00          0.00        -         -             -
`
	if !strings.HasPrefix(r.out, text) {
		t.Errorf("text:\n%s%s", r.out, r.err)
	}
	r = run(t, "statement", "--by=team", "--month=2026-09", "-o", "csv", "--books="+folder)
	if strings.Contains(r.out, "tensor") || !strings.Contains(r.out, "red") {
		t.Errorf("without profiled time:\n%s%s", r.out, r.err)
	}
}

// TestTensorParts checks that prices and intensities do not change the energy per tensor-active second. A team used a
// GPU in two clusters, and was profiled in one of them for half of an hour.
func TestTensorParts(t *testing.T) {
	var hours []*table.Hour
	for _, cluster := range []string{"east", "west"} {
		h := &table.Hour{Cluster: cluster, Start: october, GPUs: []table.GPU{{Node: "n1", UUID: "GPU-" + cluster, Energy: kWh, First: october, Last: october, Scrapes: 1}}}
		h.Charges = []table.Charge{{Node: "n1", UUID: "GPU-" + cluster, Namespace: "ml", Pod: "p", PodUID: "u", Team: "blue", Energy: kWh, Held: 3_600_000}}
		hours = append(hours, h)
	}
	east, west := &hours[0].Charges[0], &hours[1].Charges[0]
	east.Profiled, east.TensorActive, east.DRAMActive = new(int64(1_800_000)), new(int64(900_000)), new(int64(0))
	west.Energy, hours[1].GPUs[0].Energy = 3*kWh, 3*kWh
	folder := bookstest.File(t, "csv", hours...)
	// A quarter of the time was profiled, and a quarter of 4 kWh is 3.6 MJ. In 900 s, this is 4000 J/s.
	want := "line,team,profiled_share,joules_per_tensor_second\ngroup,blue,0.25,4000\ntotal,TOTAL,0.25,4000\n"
	for _, flag := range []string{"--tz=UTC", "--prices=" + file(t, prices), "--carbon=" + file(t, "from,grams_per_kwh\n2026-10-01,400\n")} {
		r := run(t, "statement", "--by=team", "--from=2026-10-01", "--to=2026-10-01T01", "-o", "csv", "--books="+folder, flag)
		if diff := cmp.Diff(want, selected(r.out, strings.Split(strings.SplitN(want, "\n", 2)[0], ","))); diff != "" {
			t.Errorf("%s: -want +got:\n%s\n%s%s", flag, diff, r.out, r.err)
		}
	}
}

// selected returns the given columns of the groups in a CSV answer.
func selected(text string, names []string) string {
	var out strings.Builder
	var header []string
	for line := range strings.Lines(text) {
		values := strings.Split(strings.TrimSpace(line), ",")
		if header == nil {
			header = values
		} else if values[0] != "group" && values[0] != "total" {
			continue
		}
		var row []string
		for _, name := range names {
			for i := range header {
				if header[i] == name && i < len(values) {
					row = append(row, values[i])
				}
			}
		}
		out.WriteString(strings.Join(row, ",") + "\n")
	}
	return out.String()
}
