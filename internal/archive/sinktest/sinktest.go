// Package sinktest contains tests for every sink of the archive that can be read.
package sinktest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/fatal"
)

// Sink is a sink whose hours can be read.
type Sink interface {
	Filed(ctx context.Context, cluster string, hour time.Time) (table.Filed, error)
	Replace(ctx context.Context, h *table.Hour) error
	Charges(ctx context.Context, cluster string, hour time.Time) ([]table.Charge, error)
	Correct(ctx context.Context, h *table.Hour) error
	Nodes(ctx context.Context, cluster string, from, until time.Time) ([]string, error)
	Clusters(ctx context.Context, since time.Time) (map[string]table.Span, error)
	Elsewhere(ctx context.Context, except []string, hour time.Time) ([]table.Seen, error)
}

// Noon is the usual start of [Hour].
var Noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Cluster is the cluster of [Hour]. In a path, its name must be escaped.
const Cluster = "east/1"

// Hour returns the first revision of an hour with a GPU, a pod and its workload. Some strings require quotes.
func Hour(start time.Time, energy int64) *table.Hour {
	h := &table.Hour{
		Cluster: Cluster, Start: start,
		GPUs: []table.GPU{{
			Node: "a", UUID: "GPU-1", Serial: "S1", Machine: "vm-1", First: start.Add(time.Second), Last: start.Add(time.Hour), Scrapes: 60,
			Energy: energy, XIDs: map[string]int64{"79": 1, "31": 2}, Uncounted: 11, Estimated: 3,
		}},
		Charges: []table.Charge{{
			Node: "a", UUID: "GPU-1", Serial: "S1", Namespace: "ml", Pod: "p, \"q\" \\ 'r'", PodUID: "u", WorkloadKind: "Job", WorkloadName: "j", WorkloadUID: "w",
			Team: "blue", Queue: "gpu", ClusterQueue: "fleet", Labels: "cost_center=4711,project=moon", Energy: energy, Held: 3_600_000, Estimated: 2, Busy: 1000,
			Began: start.Add(1500 * time.Millisecond), Ended: start.Add(59 * time.Minute),
		}},
		Pods:      []table.Pod{{Namespace: "ml", Pod: "p", PodUID: "u", Node: "a", WorkloadKind: "Job", WorkloadName: "j", WorkloadUID: "w", Requests: map[string]int64{"nvidia.com/gpu": 1}, Queue: "gpu", ClusterQueue: "fleet", Labels: "cost_center=4711,project=moon"}},
		Workloads: []table.Workload{{Kind: "Job", Namespace: "ml", Name: "j", UID: "w"}},
	}
	return Complete(h)
}

// Complete sets the state, the revision and the digest of a new hour without gaps.
func Complete(h *table.Hour) *table.Hour {
	h.State, h.Revision, h.Digest = table.Complete, 1, table.Digest(h)
	return h
}

func revision(start time.Time, energy, n int64) *table.Hour {
	h := Hour(start, energy)
	h.Revision = n
	return h
}

// Test runs the tests of a sink. open opens an empty sink.
func Test(t *testing.T, open func(t *testing.T) Sink) {
	t.Run("replace", func(t *testing.T) { testReplace(t, open(t)) })
	t.Run("correct", func(t *testing.T) { testCorrect(t, open(t)) })
	t.Run("reopened", func(t *testing.T) { testReopened(t, open(t)) })
	t.Run("units", func(t *testing.T) { testUnits(t, open(t)) })
	t.Run("nodes", func(t *testing.T) { testNodes(t, open(t)) })
	t.Run("clusters", func(t *testing.T) { testClusters(t, open(t)) })
	t.Run("elsewhere", func(t *testing.T) { testElsewhere(t, open(t)) })
}

// All rows of an hour must be replaced. Other hours must be kept.
func testReplace(t *testing.T, s Sink) {
	next, tomorrow := Noon.Add(time.Hour), Noon.AddDate(0, 0, 1)
	filed(t, s, Noon, table.Filed{})
	for _, h := range []*table.Hour{Hour(Noon, 7), Hour(next, 5), revision(Noon, 9, 2), revision(Noon, 9, 2), Hour(tomorrow, 1<<60)} {
		check(t, s.Replace(t.Context(), h))
	}
	filed(t, s, Noon, revision(Noon, 9, 2).Filed)
	filed(t, s, next, Hour(next, 5).Filed)
	filed(t, s, tomorrow, Hour(tomorrow, 1<<60).Filed)
	filed(t, s, Noon.Add(2*time.Hour), table.Filed{})
	charged(t, s, Noon, Hour(Noon, 9).Charges)
	charged(t, s, next, Hour(next, 5).Charges)
	charged(t, s, tomorrow, Hour(tomorrow, 1<<60).Charges)

	empty := revision(Noon, 9, 3)
	empty.Charges, empty.Pods, empty.Workloads = nil, nil, nil
	empty.GPUs[0].First, empty.GPUs[0].Last, empty.GPUs[0].XIDs = time.Time{}, time.Time{}, nil
	check(t, s.Replace(t.Context(), empty))
	filed(t, s, Noon, empty.Filed)
	charged(t, s, Noon, nil)

	accepted := revision(Noon, 9, 4)
	accepted.State, accepted.Reason, accepted.SilentNodes, accepted.ExplainedNodes = table.Gaps, `rack 7 was moved, "é" \ 'r'`, 3, 1
	check(t, s.Replace(t.Context(), accepted))
	filed(t, s, Noon, accepted.Filed)
}

// Corrections must be stored in addition to the charges. The sum of both must be correct.
func testCorrect(t *testing.T, s Sink) {
	check(t, s.Replace(t.Context(), Hour(Noon, 7)))
	for i, energy := range []int64{9, 4} {
		h := revision(Noon, energy, int64(i)+2)
		correct(t, s, h)
		filed(t, s, Noon, h.Filed)
	}
	all, err := s.Charges(t.Context(), Cluster, Noon)
	check(t, err)
	if len(all) != 3 {
		t.Errorf("%d rows of charges and corrections, want 3: the first charge and two corrections", len(all))
	}
}

// It must be possible to replace a corrected hour, for example after its month was opened again. The replacement must
// remove the corrections, because the new charges already include them.
func testReopened(t *testing.T, s Sink) {
	next := Noon.Add(time.Hour)
	for _, hour := range []time.Time{Noon, next} {
		check(t, s.Replace(t.Context(), Hour(hour, 7)))
		correct(t, s, revision(hour, 9, 2))
	}
	check(t, s.Replace(t.Context(), revision(Noon, 8, 3)))
	charged(t, s, Noon, Hour(Noon, 8).Charges)
	charged(t, s, next, Hour(next, 9).Charges)
}

func testUnits(t *testing.T, s Sink) {
	of := func(n, energy int64) *table.Hour {
		h := revision(Noon, 7, n)
		for _, unit := range []string{"7", "8"} {
			h.Charges = append(h.Charges, table.Charge{Node: "a", UUID: "GPU-1", Serial: "S1", Manager: "slurm", Unit: unit, Team: "physics", Username: "alice", Energy: energy, Estimated: energy / 2, Busy: 60 * energy})
		}
		return h
	}
	check(t, s.Replace(t.Context(), of(1, 5)))
	charged(t, s, Noon, of(1, 5).Charges)
	correct(t, s, of(2, 3))
}

// correct stores the difference between the charges of h and the stored charges, as corrections.
func correct(t *testing.T, s Sink, h *table.Hour) {
	t.Helper()
	before, err := s.Charges(t.Context(), h.Cluster, h.Start)
	check(t, err)
	h.State, h.Corrections = table.Corrected, table.Difference(before, h.Charges)
	check(t, s.Correct(t.Context(), h))
	charged(t, s, h.Start, h.Charges)
}

func testNodes(t *testing.T, s Sink) {
	two := Hour(Noon, 7)
	two.GPUs = append(two.GPUs, table.GPU{Node: "b", UUID: "GPU-2"}, table.GPU{Node: "b", UUID: "GPU-3"})
	empty := Hour(Noon.Add(30*time.Hour), 7)
	empty.GPUs = nil
	for _, h := range []*table.Hour{Hour(Noon.Add(time.Hour), 7), two, empty} {
		check(t, s.Replace(t.Context(), h))
	}
	tests := []struct {
		from, until int // in hours after noon
		want        string
	}{
		{-24, 0, "[]"}, {-24, 1, "[a b]"}, {-24, 2, "[a]"}, {-24, 25, "[a]"}, {1, 30, "[a]"}, {2, 30, "[]"}, {-24, 31, "[]"}, {0, 1, "[a b]"},
	}
	for _, tt := range tests {
		nodes, err := s.Nodes(t.Context(), Cluster, Noon.Add(time.Duration(tt.from)*time.Hour), Noon.Add(time.Duration(tt.until)*time.Hour))
		if got := fmt.Sprint(nodes); err != nil || got != tt.want {
			t.Errorf("nodes from hour %d until %d: %s, error %v, want %s", tt.from, tt.until, got, err, tt.want)
		}
	}
	if nodes, err := s.Nodes(t.Context(), "west", Noon, Noon.Add(time.Hour)); err != nil || len(nodes) > 0 {
		t.Errorf("nodes of another cluster: %v, error %v", nodes, err)
	}
}

func testClusters(t *testing.T, s Sink) {
	other := Hour(Noon.AddDate(0, 0, -1), 7)
	other.Cluster = "west"
	for _, h := range []*table.Hour{Hour(Noon.Add(time.Hour), 7), Hour(Noon, 7), Hour(Noon.AddDate(0, 0, -2), 7), other} {
		check(t, s.Replace(t.Context(), h))
	}
	yesterday, last := Noon.AddDate(0, 0, -1), Noon.Add(time.Hour)
	for days, want := range map[int]map[string]table.Span{
		-7: {Cluster: {First: Noon.AddDate(0, 0, -2), Last: last}, "west": {First: yesterday, Last: yesterday}},
		0:  {Cluster: {First: Noon, Last: last}},
		2:  {},
	} {
		got, err := s.Clusters(t.Context(), Noon.AddDate(0, 0, days))
		check(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("clusters since day %d (-want +got):\n%s", days, diff)
		}
	}
}

func filed(t *testing.T, s Sink, hour time.Time, want table.Filed) {
	t.Helper()
	got, err := s.Filed(t.Context(), Cluster, hour)
	check(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("manifest of %s (-want +got):\n%s", hour.Format(time.RFC3339), diff)
	}
}

func charged(t *testing.T, s Sink, hour time.Time, want []table.Charge) {
	t.Helper()
	got, err := s.Charges(t.Context(), Cluster, hour)
	check(t, err)
	if rest := table.Difference(got, want); len(rest) > 0 {
		t.Errorf("charges of %s differ from the filed charges by %+v", hour.Format(time.RFC3339), rest)
	}
	for _, c := range got { // corrections must also have the correct interval
		i := slices.IndexFunc(want, func(w table.Charge) bool { return w.PodUID == c.PodUID && w.Unit == c.Unit })
		if i >= 0 && (!c.Began.Equal(want[i].Began) || !c.Ended.Equal(want[i].Ended)) {
			t.Errorf("interval of %+v, want %s to %s", c, want[i].Began, want[i].Ended)
		}
	}
}

var check = fatal.If

// Diff compares rows like [cmp.Diff]. If the rows are equal, it does not call cmp, which is slow.
func Diff(want, got [][]string) string {
	if slices.EqualFunc(want, got, slices.Equal) {
		return ""
	}
	return cmp.Diff(want, got)
}
