package ask_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// placed describes a GPU in one slot, from the start of the hour "from" to the start of the hour "until". The name of
// the board determines the serial number and the model.
type placed struct {
	board, node, slot, address string
	from, until                int
	record                     func(g *table.GPU, hour int)
}

// failingFleet contains the boards of a fleet over six hours. The test selects hour 2 and all later hours:
//   - A1 is lost after hour 3, A2 is replaced by A3 after hour 2, the lifetime errors of A4 grow in hour 3, and A6
//     requires a reset in hour 4.
//   - A5 has two GPUs, old errors and no failure. A7 was lost before hour 2.
//   - B1 has an uncorrectable SRAM error and no count of lifetime errors. B2 requires a reset in its second slot. B3 failed only before hour 2.
//   - B4 has no error counts, and its node is silent at the end. C1 has been missing since hour 2.
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

func failingHours() []*table.Hour {
	models := map[byte]string{'A': "H100", 'B': "A100", 'C': "L40S"}
	return hourly(6, func(n int, h *table.Hour) {
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
		}
	})
}

// TestFailures checks the failed boards by model, slot and age in all kinds of archives. The expected numbers were
// counted by hand.
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
		run(t, "capacity", "--failures", "--from=2026-10-01T02", "--to=2026-10-01T06", "--books="+place, "--assets="+assets).prints(0, want)
		run(t, "capacity", "--failures", "--month=2026-10", "--books="+place, "-o", "csv").has(0, "total,TOTAL,,,12,9,0.75,3,1,3,3\n")
	}
	run(t, "capacity", "--failures", "--age", "--books=x").has(2)
}

// TestSuspect checks the suspects for boards that swap nodes in pairs after ten days. B1 has XIDs in both nodes. The
// driver loses B4 and then B5 in the only slot of n3. B3 has only XIDs that applications caused.
func TestSuspect(t *testing.T) {
	var hours []*table.Hour
	for n := range 20 {
		h := &table.Hour{Cluster: "east", Start: october.AddDate(0, 0, n).Add(7 * time.Hour)}
		add := func(serial, node, address string, losses int64, xids table.Counts) {
			h.GPUs = append(h.GPUs, table.GPU{
				Node: node, UUID: "GPU-" + serial, Serial: serial, SystemUUID: "machine of " + node, PCIBusID: address, Model: "H100",
				First: h.Start.Add(time.Minute), Last: h.Start.Add(59 * time.Minute), Scrapes: 59, Losses: losses, XIDs: xids,
			})
		}
		faults := table.Counts{"13": 1}
		if n%3 == 0 {
			faults = table.Counts{"79": 1, "13": 1}
		}
		lost := int64(n % 2)
		first, second := "B1", "B2"
		if n >= 10 {
			first, second = second, first
		}
		add(first, "n1", "1", 0, map[string]table.Counts{"B1": faults}[first])
		add(second, "n2", "1", 0, map[string]table.Counts{"B1": faults}[second])
		add("B3", "n1", "2", 0, table.Counts{"31": 9})
		add("B4", fmt.Sprint("n", 3+n/10), "1", lost*int64(1-n/10), nil)
		add("B5", fmt.Sprint("n", 4-n/10), "1", lost*int64(n/10), nil)
		hours = append(hours, h)
	}
	r := run(t, "suspect", "B1", "B2", "B3", "B4", "n3", "B9", "--books="+bookstest.File(t, "parquet", hours...), "--from=2026-10-01", "--to=2026-10-21")
	want := `NAME  SERIAL  SUSPECT       ODDS  CLUSTER  NODE  PCI  HERE  OTHER SLOTS  OTHER NODES  OTHERS IN SLOT  OTHERS IN NODE  LAST FAULT
B1    B1      board         1000  east     n1    1    4/10  0/0          3/10         0/10            0/20            2026-10-19 07:00
B2    B2      none          -     -        -     -    -     -            -            -               -               -
B3    B3      none          -     -        -     -    -     -            -            -               -               -
B4    B4      slot or node  1     east     n3    1    5/10  0/0          0/10         5/10            0/0             2026-10-10 07:00
n3    B4      slot or node  1     east     n3    1    5/10  0/0          0/10         5/10            0/0             2026-10-10 07:00
n3    B5      slot or node  1     east     n3    1    5/10  0/0          0/10         5/10            0/0             2026-10-20 07:00
B9    -       unknown       -     -        -     -    -     -            -            -               -               -
! "B9" is unknown: did you mean B1, B2, B3?
! B4: put a board into another slot of the node, and repeat the command after some days
! B5: put a board into another slot of the node, and repeat the command after some days
`
	r.prints(1, want)
}
