package ask_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// archived files some hours of a cluster, beginning with the start of October, and returns the folder.
func archived(t *testing.T, hours ...*table.Hour) string {
	t.Helper()
	for n, h := range hours {
		h.Cluster, h.Start = "east", october.Add(time.Duration(n)*time.Hour)
	}
	return bookstest.File(t, "csv", hours...)
}

// TestWhereInArchive checks the place and the holders of a board at moments within hours, in an archive. The board
// moves from n1 to n2 between 01:09:30 and 01:21. Pods are charged by the hour.
func TestWhereInArchive(t *testing.T) {
	at := func(minute int) time.Time { return october.Add(time.Duration(minute) * time.Minute) }
	gpu := func(node string, first, last int) table.GPU {
		return table.GPU{Node: node, UUID: "GPU-1", Serial: "S1", PCIBusID: "0", First: at(first), Last: at(last), Scrapes: int64(last - first + 1), Energy: kWh}
	}
	pod := func(node, name string) table.Charge {
		return table.Charge{Node: node, UUID: "GPU-1", Serial: "S1", Namespace: "ml", Pod: name, PodUID: name, Energy: kWh}
	}
	folder := archived(t,
		&table.Hour{GPUs: []table.GPU{gpu("n1", 1, 59)}, Charges: []table.Charge{pod("n1", "old")}},
		&table.Hour{GPUs: []table.GPU{gpu("n1", 60, 69), gpu("n2", 81, 119)}, Charges: []table.Charge{pod("n1", "old"), pod("n2", "new")}},
		&table.Hour{GPUs: []table.GPU{gpu("n2", 120, 179)}, Charges: []table.Charge{pod("n2", "new"), pod("n2", "late")}})
	for moment, want := range map[string]string{
		"2026-10-01T00:30": "S1 present n1 2026-10-01 00:01 2026-10-01 00:30 ml/old -",
		"2026-10-01T01:00": "S1 present n1 2026-10-01 00:01 2026-10-01 00:59 ml/old -",
		"2026-10-01T01:08": "S1 present n1 2026-10-01 00:01 2026-10-01 01:08 ml/old -",
		"2026-10-01T01:12": "S1 present n1 2026-10-01 00:01 2026-10-01 01:09 ml/old -",
		"2026-10-01T01:20": "S1 silent n1 2026-10-01 00:01 2026-10-01 01:09 ml/old -",
		"2026-10-01T01:30": "S1 present n2 2026-10-01 01:21 2026-10-01 01:30 ml/new ml/old",
		"2026-10-01T02:00": "S1 present n2 2026-10-01 01:21 2026-10-01 01:59 ml/new ml/old",
		"2026-10-01T03:00": "S1 present n2 2026-10-01 01:21 2026-10-01 02:59 ml/late ml/new -",
	} {
		r := run(t, "where", "S1", "--books="+folder, "--at="+moment, "-o", "csv")
		if r.status != 0 {
			t.Fatalf("--at=%s: exit status %d\n%s%s", moment, r.status, r.out, r.err)
		}
		var got []string
		for _, name := range []string{"serial", "state", "node", "since", "last_seen", "holders", "past_holders"} {
			text := cmp.Or(column(t, r.out, name)[0], "-")
			if strings.HasSuffix(text, ".000Z") {
				text = strings.Replace(text[:16], "T", " ", 1)
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("--at=%s: got %s\nwant %s", moment, strings.Join(got, " "), want)
		}
		if !strings.Contains(r.err, "an archive contains hourly data") {
			t.Errorf("--at=%s: no notice about hours: %s", moment, r.err)
		}
	}
	if r := run(t, "where", "S1", "--books="+folder, "--at=2027-01-01"); r.status != 1 || !strings.Contains(r.err, "--at=2027-01-01T00:00:00Z is after now") {
		t.Errorf("a moment after now: exit status %d\n%s%s", r.status, r.out, r.err)
	}
}

// TestAbsentBoards checks that all commands use the same word for the end of a board's last stay. N replaces R in the
// third hour. Q is lost, and only after three hours P replaces it. L is lost on a node with other boards, and the node
// of S is silent.
func TestAbsentBoards(t *testing.T) {
	var hours []*table.Hour
	for n := range 6 {
		h, start := &table.Hour{}, october.Add(time.Duration(n)*time.Hour)
		add := func(serial, node, address string, from, until int) {
			if n >= from && n < until {
				h.GPUs = append(h.GPUs, table.GPU{
					Node: node, UUID: "GPU-" + serial, Serial: serial, PCIBusID: address, First: start.Add(time.Minute), Last: start.Add(59 * time.Minute), Scrapes: 59,
					DRAMUncorrectable: new(int64(1)),
				})
			}
		}
		add("R", "n1", "1", 0, 2)
		add("N", "n1", "1", 2, 6)
		add("Q", "n1", "2", 0, 2)
		add("P", "n1", "2", 5, 6)
		add("L", "n1", "3", 0, 2)
		add("S", "n2", "1", 0, 2)
		hours = append(hours, h)
	}
	folder := archived(t, hours...)
	for serial, want := range map[string]string{"R": "replaced", "Q": "lost", "L": "lost", "S": "silent"} {
		for _, command := range []string{"history", "where", "errors", "missing"} {
			args := []string{command, serial, "--books=" + folder, "--to=2026-10-01T06:00", "-o", "csv"}
			if command == "missing" {
				args = slices.Delete(args, 1, 2)
			}
			r := run(t, args...)
			name := map[bool]string{true: "state", false: "end_event"}[command == "where" || command == "errors"]
			states := column(t, r.out, name)
			i := slices.Index(column(t, r.out, "serial"), serial)
			if i < 0 || states[i] != want {
				t.Errorf("%s %s: want %s, exit status %d\n%s%s", command, serial, want, r.status, r.out, r.err)
			}
		}
	}
}
