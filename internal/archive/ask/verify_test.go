package ask_test

import (
	"cmp"
	"database/sql"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestVerifyTwice checks that verify detects boards that are in two clusters at the same time. It must accept a board
// that moves to another cluster within an hour.
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
		r.has(0, "east")
		r.lacks(tt.clusters[1])
	}
}

// TestVerifyLate checks an hour that was accepted without samples. Its samples arrived after the month was closed, so
// all its charges are corrections. The hour has no rows in other tables, but it must count as complete.
func TestVerifyLate(t *testing.T) {
	dir := t.TempDir()
	folder, err := files.Open(filepath.Join(dir, "csv"), []string{"csv"})
	check(t, err)
	sqlite, err := database.SQLite.Open(t.Context(), filepath.Join(dir, "sqlite"), "")
	check(t, err)
	for _, sink := range []interface {
		sinktest.Sink
		Close() error
	}{folder, sqlite} {
		accepted := sinktest.Complete(&table.Hour{Cluster: "east", Start: october})
		accepted.State, accepted.Reason = table.Gaps, "outage"
		check(t, sink.Replace(t.Context(), accepted))
		h := sinktest.Hour(october, kWh)
		h.Cluster, h.Revision, h.State, h.Corrections = "east", 2, table.Corrected, table.Difference(nil, h.Charges)
		check(t, sink.Correct(t.Context(), h))
		check(t, sink.Close())
	}
	for _, kind := range []string{"csv", "sqlite"} {
		run(t, "verify", "--from=2026-10-01", "--to=2026-10-01T01", "-o", "csv", "--books="+filepath.Join(dir, kind)).has(0, ",3600000000,3600000000,")
	}
}

// TestVerifyDays checks that verify reports a wrong daily sum, because statements read daily sums.
func TestVerifyDays(t *testing.T) {
	file := bookstest.File(t, "sqlite", hourly(48, func(_ int, h *table.Hour) {
		h.GPUs = []table.GPU{{Node: "n1", UUID: "GPU-1", Energy: 9, First: h.Start, Last: h.Start.Add(time.Minute), Scrapes: 2}}
		h.Charges = []table.Charge{{Node: "n1", UUID: "GPU-1", Team: "red", Energy: 9, GPUTime: 5}}
	})...)
	verify := []string{"verify", "--books=" + file, "--from=2026-10-01", "--to=2026-10-03"}
	run(t, verify...).has(0)
	db, err := sql.Open("sqlite", file)
	check(t, err)
	_, err = db.ExecContext(t.Context(), "update days set gpu_ms = 500 where day = '2026-10-02'")
	check(t, err)
	check(t, db.Close())
	run(t, verify...).has(1, "the sums of 1 days differ from the sums of their hours (first day: 2026-10-02 of east)")
}

// TestUncounted checks that verify shows the uncounted energy of a fleet, from a store and from files. It must list the
// boards with the most uncounted energy, and must not fail.
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
		run(t, append(args, "-o", "csv")...).has(0, fmt.Sprintf(",%d,0,true\n", sum))
		r := run(t, args...)
		r.has(0, "and 2 more boards with uncounted energy")
		for i, n := range nodes {
			line := fmt.Sprintf(" on node %s of east: up to %.3f kWh are uncounted", n.Name, float64(n.Board.Uncounted)/3.6e9)
			if strings.Contains(r.out, line) != (i < 3) {
				t.Errorf("%s: %q is about board %d\n%s%s", source, line, i, r.out, r.err)
			}
		}
	}
}

// TestUnestimated checks a statement from rules. Values that the rules do not record must be unknown, and not 0.
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
