package ask_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/draws"
)

// TestVerifyDays checks that verify reports a wrong daily sum, because a statement would bill it.
func TestVerifyDays(t *testing.T) {
	var hours []*table.Hour
	for n := range 48 {
		h := &table.Hour{Cluster: "east", Start: october.Add(time.Duration(n) * time.Hour)}
		h.GPUs = []table.GPU{{Node: "n1", UUID: "GPU-1", Energy: 9, First: h.Start, Last: h.Start.Add(time.Minute), Scrapes: 2}}
		h.Charges = []table.Charge{{Node: "n1", UUID: "GPU-1", Team: "red", Energy: 9, GPUTime: 5}}
		hours = append(hours, h)
	}
	file := bookstest.File(t, "sqlite", hours...)
	verify := []string{"verify", "--books=" + file, "--from=2026-10-01", "--to=2026-10-03"}
	if r := run(t, verify...); r.status != 0 {
		t.Fatalf("before the change: exit status %d\n%s%s", r.status, r.out, r.err)
	}
	db, err := sql.Open("sqlite", file)
	check(t, err)
	_, err = db.ExecContext(t.Context(), "update days set gpu_ms = 500 where day = '2026-10-02'")
	check(t, err)
	check(t, db.Close())
	r := run(t, verify...)
	if want := "the sums of 1 days differ from the sums of their hours (first day: 2026-10-02 of east)"; r.status != 1 || !strings.Contains(r.out, want) {
		t.Errorf("exit status %d, want 1 and %q:\n%s%s", r.status, want, r.out, r.err)
	}
}

// TestPlacesOfDays compares the answers from a database with the answers from files, for drawn histories. The database
// reads places for whole days, whereas files contain only hours. In some hours, a GPU is in two clusters.
func TestPlacesOfDays(t *testing.T) {
	for seed := range uint64(draws.Of(2, 3)) {
		p := foldtest.DrawPlaces(seed, october, true)
		for n, h := range p.Hours {
			if n == 0 || seed%2 == 0 || p.IntN(8) > 0 {
				continue
			}
			if before := p.Hours[n-1]; before.Start.Equal(h.Start) && len(before.GPUs) > 0 {
				h.GPUs = append(h.GPUs, before.GPUs[0])
			}
		}
		folder, file := "--books="+write(t, p), bookstest.File(t, "sqlite", p.Hours...)
		for range 4 {
			from := october.Add(time.Duration(p.IntN(30)) * time.Hour)
			until := from.Add(time.Duration(20+p.IntN(30)) * time.Hour)
			for _, question := range []string{"moves", "missing", "capacity", "capacity --age", "capacity --failures"} {
				args := append(strings.Fields(question), "--from="+from.Format(time.RFC3339), "--to="+until.Format(time.RFC3339), "-o", "json")
				hours, days := run(t, append(args, folder)...), run(t, append(args, "--books="+file)...)
				if hours.status != 0 || hours.out != days.out || hours.err != days.err {
					t.Fatalf("seed %d: %v: exit status %d (-hours +days):\n%s%s", seed, args, hours.status, cmp.Diff(hours.out, days.out), days.err)
				}
			}
		}
	}
}
