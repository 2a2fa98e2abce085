package ask_test

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/ask"
	reading "github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// unread wraps the books of a database, and counts how often the hours of all GPUs with their errors are read.
type unread struct {
	reading.Source
	reading.Summing
	reads *int
}

func (u unread) Rows(ctx context.Context, of reading.Query) iter.Seq2[reading.Row, error] {
	if !of.Places {
		*u.reads++
	}
	return u.Source.Rows(ctx, of)
}

// TestScopeOfErrors checks that a reader with access to some clusters gets the same errors and failures from a database
// as from files. The database adds up the errors itself, and must not return rows of GPUs with errors for this reader.
// A board was moved into an accessible cluster from a cluster that is not accessible.
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
		place := bookstest.File(t, kind, hours...)
		library := &ask.Library{Now: func() time.Time { return october.Add(5 * time.Hour) }, Open: func(ctx context.Context) (reading.Source, error) {
			if kind == "csv" {
				return reading.OpenFolder(ctx, place)
			}
			s, err := reading.OpenSQLite(ctx, strings.TrimPrefix(place, "sqlite:"))
			if err != nil {
				return nil, err
			}
			return unread{s, s.(reading.Summing), &reads}, nil
		}}
		reply, err := library.Answer(t.Context(), r)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		for _, row := range reply.Answer.Rows {
			rows = append(rows, fmt.Sprint(row...))
		}
		return rows, reads
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
