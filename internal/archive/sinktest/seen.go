package sinktest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

func testElsewhere(t *testing.T, s Sink) {
	t.Helper()
	hour := Noon.AddDate(0, 0, 9)
	for _, cluster := range []string{Cluster, "north", "south"} {
		for n := range 2 {
			h := &table.Hour{Cluster: cluster, Start: hour.Add(time.Duration(n) * time.Hour), State: table.Complete}
			h.GPUs = []table.GPU{
				{Node: "a", UUID: "GPU-" + cluster, Serial: "S-" + cluster, First: h.Start.Add(time.Second), Last: h.Start.Add(time.Hour), Scrapes: 60},
				{Node: "b", UUID: "GPU-b"},
			}
			check(t, s.Replace(t.Context(), h))
		}
	}
	seen := func(cluster string) table.Seen {
		return table.Seen{Cluster: cluster, Node: "a", UUID: "GPU-" + cluster, Serial: "S-" + cluster, First: hour.Add(time.Second), Last: hour.Add(time.Hour)}
	}
	for _, tt := range []struct {
		except []string
		want   []table.Seen
	}{
		{[]string{Cluster}, []table.Seen{seen("north"), seen("south")}},
		{[]string{"south", Cluster, "none"}, []table.Seen{seen("north")}},
		{[]string{"south", Cluster, "north"}, nil},
	} {
		got, err := s.Elsewhere(t.Context(), tt.except, hour)
		check(t, err)
		for i := range got {
			got[i].First, got[i].Last = got[i].First.UTC(), got[i].Last.UTC()
		}
		if diff := cmp.Diff(tt.want, got, cmpopts.SortSlices(func(a, b table.Seen) bool { return a.Cluster < b.Cluster }), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("except %v (-want +got):\n%s", tt.except, diff)
		}
	}
}
