package ask_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// placed is a GPU that is in a place during some hours of failingFleet, except the hour until. Its serial number and
// model follow from its name.
type placed struct {
	board, node, slot, address string
	from, until                int
	record                     func(g *table.GPU, hour int)
}

// failingFleet contains boards in six hours. The test asks for hour 2 and later:
//   - A1 is lost after hour 3, A2 is replaced by A3 after hour 2, the lifetime errors of A4 grow in hour 3, A6 requires a reset in hour 4.
//   - A5 has two GPUs, old errors and no failure. A7 was lost before hour 2.
//   - B1 has an uncorrectable SRAM error and no count of lifetime errors. B2 requires a reset in its second slot. B3 failed only before hour 2.
//   - B4 has no error counts, and its node is silent at the end. C1 is missing since hour 2.
var failingFleet = []placed{
	{"A1", "n1", "1", "1", 0, 4, nil},
	{"A2", "n1", "2", "2", 0, 3, nil},
	{"A3", "n1", "2", "2", 3, 6, nil},
	{"A4", "n2", "1", "1", 0, 6, func(g *table.GPU, hour int) { g.LifetimeUncorrectable = new(int64(1 + hour/3)) }},
	{"A5", "n2", "2", "2", 0, 6, func(g *table.GPU, _ int) { g.LifetimeUncorrectable, g.RecoveryAction = new(int64(7)), "none" }},
	{"A5", "n2", "2", "3", 0, 6, nil},
	{"A6", "n2", "3", "4", 0, 6, func(g *table.GPU, hour int) {
		g.RecoveryAction = map[bool]string{true: "reset", false: "none"}[hour == 4]
	}},
	{"A7", "n1", "3", "3", 0, 1, nil},
	{"B1", "n3", "1", "1", 0, 6, func(g *table.GPU, hour int) {
		g.LifetimeUncorrectable, g.SRAMUncorrectable = nil, new(int64(map[bool]int{true: 1}[hour == 3]))
	}},
	{"B2", "n4", "1", "1", 0, 4, nil},
	{"B2", "n4", "2", "1", 4, 6, func(g *table.GPU, hour int) { g.RecoveryAction = map[int]string{5: "reset"}[hour] }},
	{"B3", "n5", "2", "1", 0, 6, func(g *table.GPU, hour int) {
		g.LifetimeUncorrectable, g.RecoveryAction = new(int64(min(hour, 1))), map[int]string{0: "reboot"}[hour]
	}},
	{"B4", "n6", "", "1", 0, 4, func(g *table.GPU, _ int) { g.LifetimeUncorrectable = nil }},
	{"C1", "n3", "5", "2", 0, 2, nil},
}

// failingHours returns the hours of failingFleet.
func failingHours() (hours []*table.Hour) {
	models := map[byte]string{'A': "H100", 'B': "A100", 'C': "L40S"}
	for n := range 6 {
		h := &table.Hour{Cluster: "east", Start: october.Add(time.Duration(n) * time.Hour)}
		for _, p := range failingFleet {
			if n < p.from || n >= p.until {
				continue
			}
			g := present(h.Start, p.node, "GPU-"+p.board, p.address, models[p.board[0]])
			if p.board == "A5" {
				g.UUID += "-" + p.address
			}
			g.Serial, g.ChassisSlot, g.LifetimeUncorrectable = p.board, p.slot, new(int64(0))
			if p.record != nil {
				p.record(&g, n)
			}
			h.GPUs = append(h.GPUs, g)
			h.Charges = append(h.Charges, table.Charge{Node: g.Node, UUID: g.UUID, Reason: "idle", Energy: g.Energy})
		}
		hours = append(hours, h)
	}
	return hours
}

// TestFailures checks the failed boards by model, slot and age in all kinds of books. The expected numbers were counted
// by hand.
func TestFailures(t *testing.T) {
	const want = `BY     MODEL  SLOT  AGE IN MONTHS  BOARDS  FAILED  RATE     LOST  REPLACED  ACTION  UNCORRECTABLE
model  L40S   -     -              1       1       100.0 %  1     0         0       0
model  H100   -     -              6       4       66.7 %   1     1         1       1
model  A100   -     -              4       2       50.0 %   0     0         1       1
slot   H100   1     -              2       2       100.0 %  1     0         0       1
slot   H100   3     -              1       1       100.0 %  0     0         1       0
slot   L40S   5     -              1       1       100.0 %  1     0         0       0
slot   A100   1     -              2       1       50.0 %   0     0         0       1
slot   A100   2     -              2       1       50.0 %   0     0         1       0
slot   H100   2     -              3       1       33.3 %   0     1         0       0
slot   A100   -     -              1       0       0.0 %    0     0         0       0
age    A100   -     0              3       2       66.7 %   0     0         1       1
age    A100   -     3              1       0       0.0 %    0     0         0       0
age    H100   -     0              6       4       66.7 %   1     1         1       1
age    L40S   -     12             1       1       100.0 %  1     0         0       0
total  TOTAL  -     -              11      7       63.6 %   2     1         2       2
! GPUs without error counts in this time, because the GPU or its exporter reported no counts: 1
! 10 boards have no purchase date in --assets: their age begins at their first hour in the books
`
	assets := file(t, "serial,purchase_date\nB3,2026-04-15\nC1,2025-09-30\n")
	for _, kind := range bookstest.Kinds {
		place := bookstest.File(t, kind, failingHours()...)
		r := run(t, "capacity", "--failures", "--from=2026-10-01T02", "--to=2026-10-01T06", "--books="+place, "--assets="+assets)
		if diff := cmp.Diff(want, r.out); diff != "" || r.status != 0 {
			t.Errorf("%s: exit status %d (-want +got):\n%s%s", kind, r.status, diff, r.err)
		}
		r = run(t, "capacity", "--failures", "--month=2026-10", "--books="+place, "-o", "csv")
		if total := "total,TOTAL,,,12,9,0.75,3,1,3,3\n"; r.status != 0 || !strings.HasSuffix(r.out, total) {
			t.Errorf("%s, the month: exit status %d, no %q in\n%s%s", kind, r.status, total, r.out, r.err)
		}
	}
	if r := run(t, "capacity", "--failures", "--age", "--books=x"); r.status != 2 {
		t.Errorf("exit status %d for two questions: %s", r.status, r.err)
	}
}
