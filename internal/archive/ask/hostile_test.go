package ask_test

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestHostileLabels checks labels that contain control characters and line breaks. Answers, notices and errors must not
// contain these control characters, and a label must not add a line.
func TestHostileLabels(t *testing.T) {
	const serial = "S1\x1b]0;title\x07\nFORGED\u202e\u2028"
	mark := func(name string) string { return name + "\x1b[2J\nFORGED\u2066" }
	folder := bookstest.File(t, "csv", hourly(3, func(n int, h *table.Hour) {
		h.Cluster = mark([]string{"east", "east", "west"}[n])
		h.GPUs = []table.GPU{{
			Node: mark("n1"), UUID: mark("GPU-1"), Serial: serial, ChassisSerial: mark("C1"), ChassisSlot: mark("2"), Model: mark("H100"), PCIBusID: mark("0:1"), Machine: mark("m"),
			Energy: kWh, First: h.Start.Add(time.Minute), Last: h.Start.Add(59 * time.Minute), Scrapes: 59,
		}}
		if n == 0 { // the board is missing in later hours
			gone := h.GPUs[0]
			gone.UUID, gone.Serial, gone.PCIBusID, gone.Energy = mark("GPU-2"), mark("S2"), mark("0:2"), 0
			h.GPUs = append(h.GPUs, gone)
		}
		h.Charges = []table.Charge{
			{
				Node: mark("n1"), UUID: mark("GPU-1"), Serial: serial, Namespace: mark("ml"), Pod: mark("p"), PodUID: mark("u"), Team: mark("blue"),
				WorkloadKind: mark("Job"), WorkloadName: mark("j"), Energy: kWh / 2, GPUTime: 3_600_000,
			},
			{Node: mark("n1"), UUID: mark("GPU-1"), Serial: serial, Manager: mark("slurm"), Unit: mark("7"), Username: mark("alice"), Team: mark("red"), Energy: kWh / 2},
		}
		sinktest.Complete(h).State = table.Gaps
	})...)
	assets := file(t, "serial,tag,warranty\nS1,\"A\x1b[2J\",2029-01-01\n")
	for _, args := range [][]string{
		{"where", mark("n1")},
		{"where", serial},
		{"where", "S1"}, // matches no board; the error lists similar names
		{"where", mark("unknown")},
		{"history", serial},
		{"ran", serial},
		{"ran", "--pod=" + mark("ml") + "/" + mark("p")},
		{"ran", "--unit=" + mark("x")},
		{"statement", "--by=team,user,pod,unit,cluster,node,model"},
		{"statement", "--by=" + mark("x")},
		{"idle"},
		{"moves"},
		{"missing", "--to=2026-10-01T02"},
		{"verify"},
		{"verify", "--prove", "--books=" + books(t)},
		{"capacity"},
		{"capacity", "--age"},
		{"capacity", "--failures"},
		{"statement", "--compare", "--by=namespace"},
		{"report", serial},
		{"report", serial, "-o", "html"},
		{"where", serial, "-o", "json"},
		{"where", serial, "--assets=" + assets + mark("x")},
		{"completion", mark("x")},
	} {
		if args[0] != "completion" {
			args = append([]string{args[0], "--books=" + folder, "--to=2026-10-02", "--from=2026-10-01", "--assets=" + assets}, args[1:]...)
		}
		r := run(t, args...)
		out := r.out + r.err
		for _, c := range out {
			if c != '\n' && unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
				t.Errorf("%q prints %U:\n%q", args, c, out)
				break
			}
		}
		for line := range strings.Lines(out) {
			if strings.HasPrefix(strings.TrimLeft(line, "! >"), "FORGED") {
				t.Errorf("%q prints a forged line:\n%s", args, out)
			}
		}
		if out == "" {
			t.Errorf("%q prints nothing", args)
		}
	}
}
