package ask_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestTensor checks the tensor-active time of three teams and the energy of a tensor-active second. Half of the first team's time was
// profiled, the second team has no tensor activity, and the third team has no profiled time. A statement without profiled time lacks
// the columns.
func TestTensor(t *testing.T) {
	folder := t.TempDir()
	sink, err := files.Open(folder, []string{"csv"})
	check(t, err)
	h := &table.Hour{Cluster: "east", Start: october, GPUs: []table.GPU{{Node: "n1", UUID: "GPU-1", First: october, Last: october, Scrapes: 1}}}
	add := func(team string, profiled, tensor *int64) {
		// 1 kWh in an hour
		c := table.Charge{Node: "n1", UUID: "GPU-1", Namespace: "ml", Pod: team, PodUID: team, Team: team, Energy: kWh, Held: 3_600_000, Profiled: profiled, TensorActive: tensor, DRAMActive: tensor}
		h.GPUs[0].Energy += c.Energy
		h.Charges = append(h.Charges, c)
	}
	add("blue", new(int64(1_800_000)), new(int64(900_000)))
	add("green", new(int64(3_600_000)), new(int64(0)))
	add("red", nil, nil)
	check(t, sink.Replace(t.Context(), sinktest.Complete(h)))
	without := *h
	without.Start, without.Charges = october.AddDate(0, -1, 0), h.Charges[2:]
	without.GPUs = []table.GPU{h.GPUs[0]}
	without.GPUs[0].Energy = kWh
	check(t, sink.Replace(t.Context(), sinktest.Complete(&without)))
	check(t, sink.Close())
	// Half of 3.6 MJ in 900 s are 2000 J/s.
	want := `line,team,profiled_share,tensor_active_ms,dram_active_ms,joules_per_tensor_second
group,blue,0.5,900000,900000,2000
group,green,1,0,0,
group,red,,,,
`
	r := run(t, "statement", "--by=team", "--month=2026-10", "-o", "csv", "--books="+folder)
	if diff := cmp.Diff(want, selected(r.out, strings.Split(strings.SplitN(want, "\n", 2)[0], ","))); diff != "" {
		t.Errorf("-want +got:\n%s\n%s%s", diff, r.out, r.err)
	}
	r = run(t, "statement", "--by=team", "--month=2026-09", "-o", "csv", "--books="+folder)
	if strings.Contains(r.out, "tensor") || !strings.Contains(r.out, "red") {
		t.Errorf("without profiled time:\n%s%s", r.out, r.err)
	}
}

// selected returns the columns of the groups in a CSV answer.
func selected(text string, names []string) string {
	var out strings.Builder
	var header []string
	for line := range strings.Lines(text) {
		values := strings.Split(strings.TrimSpace(line), ",")
		if header == nil {
			header = values
		} else if values[0] != "group" {
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
