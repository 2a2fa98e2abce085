package ask

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/health"
)

// suspectColumns are the columns of boards and the parts that their faults follow. Days are printed
// as faulty/all.
var suspectColumns = []print.Column{
	{Name: "serial", Title: "SERIAL"},
	{Name: "suspect", Title: "SUSPECT"},
	{Name: "odds", Title: "ODDS", Kind: print.Count},
	{Name: "cluster", Title: "CLUSTER"},
	{Name: "node", Title: "NODE"},
	{Name: "pci_bus_id", Title: "PCI"},
	{Name: "days_here", Title: "HERE"},
	{Name: "days_other_slots", Title: "OTHER SLOTS"},
	{Name: "days_other_nodes", Title: "OTHER NODES"},
	{Name: "days_others_in_slot", Title: "OTHERS IN SLOT"},
	{Name: "days_others_in_node", Title: "OTHERS IN NODE"},
	{Name: "last_fault", Title: "LAST FAULT", Kind: print.Time},
}

// suspect reports whether the faults of boards follow the board, its slot or its node.
func (q *question) suspect(ctx context.Context) (print.Answer, error) {
	of := q.period()
	found, notices, err := q.find(ctx, of)
	if err != nil {
		return print.Answer{}, err
	}
	a := print.Answer{Columns: q.columns(suspectColumns), Notices: notices}
	for _, n := range found {
		if n.unknown != nil {
			a.Rows = append(a.Rows, suspectRow(n.name, n.asset.Serial, unknownState))
			continue
		}
		rows, err := gather(q.source.Rows(ctx, where(of, "uuid", n.uuids...)))
		if err != nil {
			return a, err
		}
		suspects, err := q.suspects(ctx, of, n.name, rows)
		if err != nil {
			return a, err
		}
		a.Rows, a.Notices = append(a.Rows, suspects.Rows...), append(a.Notices, suspects.Notices...)
	}
	a.Notices = unique(a.Notices)
	return a, nil
}

// suspects returns the rows of the boards of a name, and advice on further evidence.
func (q *question) suspects(ctx context.Context, of books.Query, name string, rows []books.Row) (print.Answer, error) {
	a := print.Answer{Columns: q.columns(suspectColumns)}
	for _, board := range boardsIn(rows) {
		own, last := newTally(board), board[len(board)-1]
		serial := cmp.Or(last.Serial, last.UUID)
		at, faulty := own.worst()
		if !faulty {
			a.Rows = append(a.Rows, suspectRow(name, serial, "none"))
			continue
		}
		neighbours, err := gather(q.source.Rows(ctx, where(where(of, "cluster", at.cluster), "node", at.node)))
		if err != nil {
			return a, err
		}
		e := own.compare(newTally(neighbours), at)
		names, odds := e.suspects()
		row := []any{name, serial, strings.Join(names, " or "), odds, at.cluster, at.node, at.address}
		for _, s := range e {
			row = append(row, s.String())
		}
		a.Rows = append(a.Rows, append(row, own.last))
		if len(names) > 1 {
			a.Notices = append(a.Notices, serial+": "+e.advice(names))
		}
	}
	return a, nil
}

// boardsIn returns the rows of each board, in the order of their serial numbers or UUIDs.
func boardsIn(rows []books.Row) [][]books.Row {
	names := make(map[string]string) // by UUID; a serial number may become known during a stay
	for _, g := range rows {
		names[g.UUID] = cmp.Or(g.Serial, names[g.UUID], g.UUID)
	}
	boards := make(map[string][]books.Row)
	for _, g := range rows {
		boards[names[g.UUID]] = append(boards[names[g.UUID]], g)
	}
	var all [][]books.Row
	for _, name := range slices.Sorted(maps.Keys(boards)) {
		all = append(all, boards[name])
	}
	return all
}

// suspectRow returns the row of a board. Its last columns may be left out.
func suspectRow(values ...any) []any {
	for i := len(values); i <= len(suspectColumns); i++ {
		values = append(values, map[print.Kind]any{print.Text: "", print.Count: nil, print.Time: time.Time{}}[suspectColumns[i-1].Kind])
	}
	return values
}

// gather returns the rows of a sequence.
func gather(all iter.Seq2[books.Row, error]) (rows []books.Row, err error) {
	for row, err := range all {
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// fails reports whether a GPU failed in an hour: it was lost, or its memory errors or an XID show a
// hardware fault.
func fails(g table.GPU) bool {
	return g.Losses > 0 || g.RemappedUncorrectable > 0 || slices.ContainsFunc(hardwareXIDs, func(code string) bool { return g.XIDs[code] > 0 })
}

// sample is a number of days of GPUs, and how many of them had a fault. Several faults on one day
// usually have the same cause.
type sample struct{ faulty, days int }

func (s sample) String() string { return fmt.Sprintf("%d/%d", s.faulty, s.days) }

func (s sample) and(other sample) sample { return sample{s.faulty + other.faulty, s.days + other.days} }

// stayDay is a day of a GPU in a place.
type stayDay struct {
	place
	uuid string
	day  time.Time
}

// tally contains the days of GPUs in their places, and whether they had a fault.
type tally struct {
	days map[stayDay]bool
	last time.Time // hour of the last fault
}

func newTally(rows []books.Row) tally {
	t := tally{days: make(map[stayDay]bool)}
	for _, g := range rows {
		failed := fails(g.GPU)
		if g.Scrapes == 0 && !failed {
			continue // it was not there
		}
		at := stayDay{place{g.Cluster, g.Node, g.SystemUUID, g.PCIBusID}, g.UUID, g.Hour.Truncate(day)}
		t.days[at] = t.days[at] || failed
		if failed {
			t.last = later(t.last, g.Hour)
		}
	}
	return t
}

// worst returns the place with the most faulty days, or false if there is none. If several places
// have the same number, it returns the place with the latest faulty day.
func (t tally) worst() (worst place, faulty bool) {
	type score struct {
		days int
		last time.Time
	}
	scores := make(map[place]score)
	for at, failed := range t.days {
		if failed {
			s := scores[at.place]
			scores[at.place] = score{s.days + 1, later(s.last, at.day)}
		}
	}
	var best score
	for at, s := range scores {
		order := cmp.Or(cmp.Compare(s.days, best.days), s.last.Compare(best.last), cmp.Compare(worst.node+worst.address, at.node+at.address))
		if !faulty || order > 0 {
			worst, best, faulty = at, s, true
		}
	}
	return worst, faulty
}

// same reports whether two places are in one machine. An unknown system UUID does not count as a
// difference.
func (p place) same(other place) bool {
	return p.cluster == other.cluster && p.node == other.node && (p.machine == other.machine || p.machine == "" || other.machine == "")
}

// hardwareXIDs are the XIDs of faults of the hardware.
var hardwareXIDs = xidsWithAlert()

// xidsWithAlert returns the XIDs that raise an alert.
func xidsWithAlert() (codes []string) {
	for _, r := range health.Rules {
		if r.XID != 0 && r.Alert != "" {
			codes = append(codes, strconv.FormatUint(r.XID, 10))
		}
	}
	return codes
}
