package ask_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestVerifyTwice checks that verify detects boards that are filed for two clusters at the same time, but accepts a
// board that moves to another cluster within an hour.
func TestVerifyTwice(t *testing.T) {
	for _, tt := range []struct {
		clusters []string
		minutes  [][2]int // first and last scrape of board 1 in each cluster
		ok       bool
	}{
		{[]string{"east", "west"}, [][2]int{{1, 29}, {30, 59}}, true},
		{[]string{"east", "west"}, [][2]int{{1, 30}, {30, 59}}, false},
		{[]string{"east", "example"}, [][2]int{{1, 59}, {1, 59}}, false},
	} {
		var hours []*table.Hour
		for n := range 3 {
			for i, cluster := range tt.clusters {
				h := &table.Hour{Cluster: cluster, Start: october.Add(time.Duration(n) * time.Hour)}
				h.GPUs = []table.GPU{{Node: "n1", UUID: "GPU-" + cluster, Energy: kWh, Scrapes: 1, First: h.Start.Add(time.Second), Last: h.Start.Add(time.Minute)}}
				if n == 1 {
					at := func(minute int) time.Time { return h.Start.Add(time.Duration(minute) * time.Minute) }
					h.GPUs = append(h.GPUs, table.GPU{Node: "n2", UUID: "GPU-1", Serial: "S1", Energy: kWh, Scrapes: 9, First: at(tt.minutes[i][0]), Last: at(tt.minutes[i][1])})
				}
				for _, g := range h.GPUs {
					h.Charges = append(h.Charges, table.Charge{Node: g.Node, UUID: g.UUID, Reason: "idle", Energy: kWh})
				}
				hours = append(hours, h)
			}
		}
		folder := bookstest.File(t, "csv", hours...)
		for _, of := range []string{"", tt.clusters[0]} {
			r := run(t, "verify", "--books="+folder, "--from=2026-10-01", "--to=2026-10-01T03", "--of-cluster="+of)
			want := fmt.Sprintf("1 boards, such as S1, are in east and %s at the same time in 1 hours (first hour: 2026-10-01 01:00)", tt.clusters[1])
			if (r.status == 0) != tt.ok || strings.Contains(r.out, want) == tt.ok {
				t.Errorf("%v of %v: exit status %d:\n%s%s", of, tt, r.status, r.out, r.err)
			}
		}
		deleted, err := filepath.Glob(filepath.Join(folder, "*", "cluster="+tt.clusters[1])) // as described in docs/dba.md
		check(t, err)
		for _, path := range deleted {
			check(t, os.RemoveAll(path))
		}
		r := run(t, "verify", "--books="+folder, "--from=2026-10-01", "--to=2026-10-01T03")
		if r.status != 0 || strings.Contains(r.out, tt.clusters[1]) || !strings.Contains(r.out, "east") {
			t.Errorf("after %d folders were deleted: exit status %d:\n%s%s", len(deleted), r.status, r.out, r.err)
		}
	}
}
