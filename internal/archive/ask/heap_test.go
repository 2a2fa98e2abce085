package ask_test

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"runtime"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/ask"
	bookkeeping "github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// stream implements the books of a fleet, which it generates while they are read. Every third GPU has errors.
type stream struct {
	hours, gpus int
	heap        uint64 // largest number of bytes in use after the last row of a read
	rows        int    // number of rows that were read
}

func (s *stream) Name() string { return "stream" }
func (s *stream) Close() error { return nil }

func (s *stream) board(i int) bookkeeping.Board {
	return bookkeeping.Board{Cluster: "east", Node: fmt.Sprintf("n%d", i/8), UUID: fmt.Sprintf("GPU-%d", i), Serial: fmt.Sprintf("S%d", i), ChassisSerial: fmt.Sprintf("C%d", i/8), PCIBusID: fmt.Sprintf("%d", i%8)}
}

// times returns the hours of a query.
func (s *stream) times(of bookkeeping.Query) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for n := range s.hours {
			if at := october.Add(time.Duration(n) * time.Hour); !at.Before(of.From) && at.Before(of.Until) && !yield(at) {
				return
			}
		}
	}
}

// Rows returns the rows, and measures the memory in use after the last row.
func (s *stream) Rows(_ context.Context, of bookkeeping.Query) iter.Seq2[bookkeeping.Row, error] {
	return func(yield func(bookkeeping.Row, error) bool) {
		for at := range s.times(of) {
			for i := range s.gpus {
				b := s.board(i)
				g := table.GPU{
					Cluster: b.Cluster, Hour: at, Node: b.Node, UUID: b.UUID, Serial: b.Serial, ChassisSerial: b.ChassisSerial, PCIBusID: b.PCIBusID, Model: "H100",
					First: at, Last: at.Add(59 * time.Minute), Scrapes: 60, Energy: 1000, DRAMCorrectable: new(int64(i % 3)), RecoveryAction: "none",
				}
				if s.rows++; !yield(bookkeeping.Row{GPU: g}, nil) {
					return
				}
			}
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		s.heap = max(s.heap, m.HeapAlloc)
	}
}

func (s *stream) Hours(_ context.Context, of bookkeeping.Query) iter.Seq2[bookkeeping.Hour, error] {
	return func(yield func(bookkeeping.Hour, error) bool) {
		for at := range s.times(of) {
			if !yield(bookkeeping.Hour{Cluster: "east", Hour: at, State: table.Complete, GPUs: int64(s.gpus)}, nil) {
				return
			}
		}
	}
}

func (s *stream) Boards(context.Context, bookkeeping.Query) (all []bookkeeping.Board, err error) {
	for i := range s.gpus {
		all = append(all, s.board(i))
	}
	return all, nil
}

func (s *stream) Counted(ctx context.Context, of bookkeeping.Query) ([]bookkeeping.Board, []bookkeeping.Hour, error) {
	st, err := s.Statement(ctx, of)
	all, _ := s.Boards(ctx, of)
	for i := range all {
		all[i].Hours = len(st.Hours)
	}
	return all, st.Hours, err
}

func (s *stream) Statement(ctx context.Context, of bookkeeping.Query) (*bookkeeping.Statement, error) {
	st := new(bookkeeping.Statement)
	for h, err := range s.Hours(ctx, of) {
		if err != nil {
			return nil, err
		}
		st.Hours = append(st.Hours, h)
	}
	return st, nil
}

// TestHeap checks that questions about the boards of a fleet do not keep the rows of all hours. With four times as many
// hours, the memory in use must grow by less than ten bytes per additional row.
func TestHeap(t *testing.T) {
	const gpus, hours = 80, 48
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	measure := func(r ask.Request, hours int) (heap uint64, rows int) {
		s := &stream{hours: hours, gpus: gpus}
		end := october.Add(time.Duration(hours) * time.Hour)
		l := &ask.Library{Label: "--books", Now: func() time.Time { return end }, Open: func(context.Context) (bookkeeping.Source, error) { return s, nil }}
		if _, err := l.Answer(t.Context(), r); err != nil {
			t.Fatalf("%s: %v", r.CommandLine(), err)
		}
		return s.heap, s.rows
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
