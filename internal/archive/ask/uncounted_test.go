package ask_test

import (
	"cmp"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
)

// TestUncounted checks that verify shows the sum of a fleet's upper bounds, from a store and from files. It must list
// the boards with the highest bounds, and must not fail because of uncounted energy.
func TestUncounted(t *testing.T) {
	samples := foldtest.NewStore()
	f := foldtest.NewFleet(samples, october, 7, 5, "cluster", "east")
	f.Run(fleetHours * 60)
	server := httptest.NewServer(foldtest.API{Store: samples})
	defer server.Close()
	nodes, sum := slices.Clone(f.Nodes), int64(0)
	for _, n := range nodes {
		sum += n.Board.Uncounted
	}
	slices.SortFunc(nodes, func(a, b *foldtest.Node) int { return cmp.Compare(b.Board.Uncounted, a.Board.Uncounted) })
	if nodes[3].Board.Uncounted == 0 {
		t.Fatal("the fleet must have four boards with uncounted energy")
	}
	for _, source := range []string{"--store.url=" + server.URL, "--books=" + fileFleet(t, samples, nil)} {
		args := append([]string{"verify", "--store.read=samples", source}, fleetTime...)
		if r := run(t, append(args, "-o", "csv")...); r.status != 0 || !strings.Contains(r.out, fmt.Sprintf(",%d,0,true\n", sum)) {
			t.Errorf("%s: exit status %d, want %d mJ\n%s%s", source, r.status, sum, r.out, r.err)
		}
		r := run(t, args...)
		for i, n := range nodes {
			line := fmt.Sprintf(" on node %s of east: up to %.3f kWh are uncounted", n.Name, float64(n.Board.Uncounted)/3.6e9)
			if strings.Contains(r.out, line) != (i < 3) {
				t.Errorf("%s: %q is about board %d\n%s%s", source, line, i, r.out, r.err)
			}
		}
		if !strings.Contains(r.out, fmt.Sprintf("and %d more boards with uncounted energy", 2)) {
			t.Errorf("%s:\n%s%s", source, r.out, r.err)
		}
	}
}

// TestUnestimated checks that a statement from rules omits amounts that the rules do not record,
// instead of showing 0.
func TestUnestimated(t *testing.T) {
	url, _, _ := fleet(t, nil)
	args := append([]string{"statement", "--by=namespace", "--store.url=" + url, "-o", "json"}, fleetTime...)
	for read, want := range map[string]bool{"rules": true, "samples": false} {
		r := run(t, append(args, "--store.read="+read)...)
		if got := strings.Contains(r.out, `"estimated_mj": null`) && strings.Contains(r.out, `"estimated_share": null`) && strings.Contains(r.out, `"busy_ms": null`); got != want || r.status != 0 {
			t.Errorf("by %s: exit status %d, unknown is %v, want %v\n%s%s", read, r.status, got, want, r.out, r.err)
		}
	}
}
