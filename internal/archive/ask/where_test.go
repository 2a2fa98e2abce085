package ask_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// archived writes consecutive hours of the cluster east to a folder. The first hour is the start of October.
func archived(t *testing.T, hours ...*table.Hour) string {
	t.Helper()
	for n, h := range hours {
		h.Cluster, h.Start = "east", october.Add(time.Duration(n)*time.Hour)
	}
	return bookstest.File(t, "csv", hours...)
}

// hourly returns consecutive hours of the cluster east from the start of October. The function fill adds the rows of
// each hour.
func hourly(count int, fill func(n int, h *table.Hour)) (hours []*table.Hour) {
	for n := range count {
		h := &table.Hour{Cluster: "east", Start: october.Add(time.Duration(n) * time.Hour)}
		fill(n, h)
		hours = append(hours, h)
	}
	return hours
}

// TestWhereInArchive checks the place and the pods of a board in an archive, at times within hours. The board moves
// from n1 to n2 between 01:09:30 and 01:21. Pods are charged by the hour.
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
		"2026-10-01T00:30": "present,n1,2026-10-01T00:01Z,2026-10-01T00:30Z,ml/old,",
		"2026-10-01T01:00": "present,n1,2026-10-01T00:01Z,2026-10-01T00:59Z,ml/old,",
		"2026-10-01T01:08": "present,n1,2026-10-01T00:01Z,2026-10-01T01:08Z,ml/old,",
		"2026-10-01T01:12": "present,n1,2026-10-01T00:01Z,2026-10-01T01:09Z,ml/old,",
		"2026-10-01T01:20": "silent,n1,2026-10-01T00:01Z,2026-10-01T01:09Z,ml/old,",
		"2026-10-01T01:30": "present,n2,2026-10-01T01:21Z,2026-10-01T01:30Z,ml/new,ml/old",
		"2026-10-01T02:00": "present,n2,2026-10-01T01:21Z,2026-10-01T01:59Z,ml/new,ml/old",
		"2026-10-01T03:00": "present,n2,2026-10-01T01:21Z,2026-10-01T02:59Z,ml/late ml/new,",
	} {
		r := run(t, "where", "S1", "--books="+folder, "--at="+moment, "-o", "csv")
		r.has(0, "an archive contains hourly data")
		r.lists([]string{"state", "node", "since", "last_seen", "holders", "past_holders"}, strings.ReplaceAll(want, "Z", ":00.000Z"))
	}
	run(t, "where", "S1", "--books="+folder, "--at=2027-01-01").has(1, "--at=2027-01-01T00:00:00Z is after now")
}

// TestAbsentBoards checks that all commands use the same word for the reason why a board is absent. N replaces R in the
// third hour. Q is lost, and P replaces it three hours later. L is lost on a node with other boards. The node of S is
// no longer scraped.
func TestAbsentBoards(t *testing.T) {
	folder := bookstest.File(t, "csv", hourly(6, func(n int, h *table.Hour) {
		add := func(serial, node, address string, from, until int) {
			if n >= from && n < until {
				g := present(h.Start, node, "GPU-"+serial, address, "H100")
				g.Serial, g.DRAMUncorrectable = serial, new(int64(1))
				h.GPUs = append(h.GPUs, g)
			}
		}
		add("R", "n1", "1", 0, 2)
		add("N", "n1", "1", 2, 6)
		add("Q", "n1", "2", 0, 2)
		add("P", "n1", "2", 5, 6)
		add("L", "n1", "3", 0, 2)
		add("S", "n2", "1", 0, 2)
	})...)
	for serial, want := range map[string]string{"R": "replaced", "Q": "lost", "L": "lost", "S": "silent"} {
		for _, command := range []string{"history", "where", "errors", "missing"} {
			args := []string{command, serial, "--books=" + folder, "--to=2026-10-01T06:00", "-o", "csv"}
			if command == "missing" {
				args = slices.Delete(args, 1, 2)
			}
			r := run(t, args...)
			name := map[bool]string{true: "state", false: "end_event"}[command == "where" || command == "errors"]
			states := r.columns(name)
			i := slices.Index(r.columns("serial"), serial)
			if i < 0 || states[i] != want {
				t.Errorf("%s %s: want %s, exit status %d\n%s%s", command, serial, want, r.status, r.out, r.err)
			}
		}
	}
}

// TestZoneOfErrors checks that --tz changes the times of errors only in text. On October 25, 2026, at 1 o'clock UTC,
// clocks in Berlin are turned back from 3 to 2 o'clock, so both errors have the same local time.
func TestZoneOfErrors(t *testing.T) {
	var hours []*table.Hour
	for n := range 2 {
		start := time.Date(2026, 10, 25, n, 0, 0, 0, time.UTC)
		g := table.GPU{Node: "n1", UUID: "GPU-1", Serial: "S1", First: start, Last: start.Add(59 * time.Minute), Scrapes: 60, XIDs: table.Counts{"79": 1}}
		hours = append(hours, &table.Hour{Cluster: "east", Start: start, GPUs: []table.GPU{g}})
	}
	folder := bookstest.File(t, "csv", hours...)
	for format, want := range map[string]string{
		"text": "79 at 2026-10-25 02h, 79 at 2026-10-25 02h\n",
		"json": `"xids": "79 at 2026-10-25 01h, 79 at 2026-10-25 00h"`,
		"csv":  `,"79 at 2026-10-25 01h, 79 at 2026-10-25 00h",`,
	} {
		run(t, "where", "S1", "--at=2026-10-25T02", "--tz=Europe/Berlin", "-o", format, "--books="+folder).has(0, want)
	}
}
