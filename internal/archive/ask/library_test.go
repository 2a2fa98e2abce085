package ask_test

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/ask"
	reading "github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestScopeOfErrors checks a reader who may see only some clusters. This reader must get the same errors and failures
// from a database as from files. The database must add up the errors, and must not return single rows with errors. One
// board was moved from a hidden cluster to a visible cluster.
func TestScopeOfErrors(t *testing.T) {
	var hours []*table.Hour
	for n := range 4 {
		for _, cluster := range []string{"east", "west", "north"} {
			h := &table.Hour{Cluster: cluster, Start: october.Add(time.Duration(n) * time.Hour)}
			g := present(h.Start, cluster+"-n", "GPU-"+cluster, "1", "H100")
			g.DRAMUncorrectable, g.LifetimeUncorrectable, g.RecoveryAction = new(int64(n)), new(int64(10+n)), []string{"none", "reset", "none", "reset"}[n]
			h.GPUs = append(h.GPUs, g)
			if moved := map[bool]string{true: "west", false: "east"}[n < 2]; moved == cluster {
				m := present(h.Start, cluster+"-m", "GPU-moved", "2", "H100")
				m.DRAMUncorrectable, m.LifetimeUncorrectable = new(int64(100)), new(int64(200+n))
				h.GPUs = append(h.GPUs, m)
			}
			for _, g := range h.GPUs {
				h.Charges = append(h.Charges, table.Charge{Node: g.Node, UUID: g.UUID, Reason: "idle", Energy: g.Energy})
			}
			hours = append(hours, h)
		}
	}
	answer := func(kind string, r ask.Request) (rows []string, reads int) {
		t.Helper()
		m := &metered{Source: bookstest.Open(t, bookstest.File(t, kind, hours...))}
		library := &ask.Library{Now: func() time.Time { return october.Add(5 * time.Hour) }, Open: func(context.Context) (reading.Source, error) {
			if sums, ok := m.Source.(reading.Summing); ok {
				return struct {
					*metered
					reading.Summing
				}{m, sums}, nil
			}
			return m, nil
		}}
		reply, err := library.Answer(t.Context(), r)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		for _, row := range reply.Answer.Rows {
			rows = append(rows, fmt.Sprint(row...))
		}
		return rows, m.details
	}
	period := url.Values{"from": {"2026-10-01"}, "to": {"2026-10-01T04"}}
	failures := url.Values{"from": {"2026-10-01"}, "to": {"2026-10-01T04"}, "failures": {"true"}}
	for _, r := range []ask.Request{{Command: "errors", Flags: period}, {Command: "capacity", Flags: failures}} {
		r.Scope = ask.Scope{Rules: []ask.Rule{{Clusters: []string{"east", "north"}}}}
		want, _ := answer("csv", r)
		got, reads := answer("sqlite", r)
		if diff := cmp.Diff(want, got); diff != "" || len(got) < 2 || reads > 0 || strings.Contains(strings.Join(got, " "), "west") {
			t.Errorf("%s: %d reads of rows, rows of the database (-files +database):\n%s\n%s", r.Command, reads, diff, strings.Join(got, "\n"))
		}
		if r.Command == "errors" && !strings.Contains(strings.Join(got, " "), " 200 ") { // the board spent two hours in the cluster east
			t.Errorf("the errors of the moved board:\n%s", strings.Join(got, "\n"))
		}
	}
}

// metered counts the rows that a source returns. After the last row, it measures the memory in use.
type metered struct {
	reading.Source
	heap uint64 // largest number of bytes in use
	rows int
	// details counts the reads of rows with errors.
	details int
}

func (m *metered) Rows(ctx context.Context, of reading.Query) iter.Seq2[reading.Row, error] {
	return func(yield func(reading.Row, error) bool) {
		if !of.Places {
			m.details++
		}
		for row, err := range m.Source.Rows(ctx, of) {
			if m.rows++; !yield(row, err) {
				return
			}
		}
		runtime.GC()
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		m.heap = max(m.heap, now.HeapAlloc)
	}
}

// TestHeap checks that questions about the boards of a fleet do not keep the rows of all hours in memory. One archive
// has four times as many hours as the other. The difference in memory must be less than ten bytes per additional row.
func TestHeap(t *testing.T) {
	const gpus, hours = 80, 48
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	folder := bookstest.File(t, "csv", hourly(4*hours, func(_ int, h *table.Hour) {
		for i := range gpus {
			g := present(h.Start, fmt.Sprint("n", i/8), fmt.Sprint("GPU-", i), fmt.Sprint(i%8), "H100")
			g.DRAMCorrectable, g.RecoveryAction = new(int64(i%3)), "none" // every third GPU has no errors
			h.GPUs = append(h.GPUs, g)
		}
	})...)
	measure := func(r ask.Request, hours int) (heap uint64, rows int) {
		source, err := reading.OpenFolder(t.Context(), folder)
		check(t, err)
		m := &metered{Source: source}
		end := october.Add(time.Duration(hours) * time.Hour)
		l := &ask.Library{Label: "--books", Now: func() time.Time { return end }, Open: func(context.Context) (reading.Source, error) { return m, nil }}
		if _, err := l.Answer(t.Context(), r); err != nil {
			t.Fatalf("%s: %v", r.CommandLine(), err)
		}
		return m.heap, m.rows
	}
	for _, question := range []struct {
		command string
		flags   string
		names   []string
	}{
		{"errors", "from=2026-10-01", nil},
		{"capacity", "from=2026-10-01", nil},
		{"capacity", "from=2026-10-01&failures=true", nil},
		{"capacity", "from=2026-10-01&age=true", nil},
		{"where", "from=2026-10-01", []string{"n0", "S9"}},
		{"history", "from=2026-10-01", []string{"n0"}},
	} {
		flags, err := url.ParseQuery(question.flags)
		check(t, err)
		r := ask.Request{Command: question.command, Names: question.names, Flags: flags, Scope: ask.Scope{All: true}}
		few, fewRows := measure(r, hours)
		many, manyRows := measure(r, 4*hours)
		added := manyRows - fewRows
		if added < fewRows {
			t.Errorf("%s: %d rows, then %d", r.CommandLine(), fewRows, manyRows)
		}
		if int64(many)-int64(few) > int64(10*added)+64<<10 {
			t.Errorf("%s: %d kB for %d rows, %d kB for %d", r.CommandLine(), few>>10, fewRows, many>>10, manyRows)
		}
	}
}
