package ask_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestSuspect asks about boards that swap nodes in pairs after ten days. B1 has XIDs in both nodes. The only slot of n3
// loses B4 and then B5. B3 has only XIDs that applications caused.
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
	if diff := cmp.Diff(want, r.out); diff != "" || r.status != 1 {
		t.Errorf("exit status %d (-want +got):\n%s%s", r.status, diff, r.err)
	}
}
