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

type suspected struct {
	name, serial string
	suspect      string // such as "board or slot"; none or unknown
	odds         *int64
	place        place
	days         *evidence
	last         time.Time // time of the last fault
}

// Days are printed as faulty/all.
var suspectColumns = columns[suspected]{
	{"name", "", print.Text, func(s suspected) any { return s.name }},
	{"serial", "SERIAL", print.Text, func(s suspected) any { return s.serial }},
	{"suspect", "SUSPECT", print.Text, func(s suspected) any { return s.suspect }},
	{"odds", "ODDS", print.Count, func(s suspected) any { return number(s.odds) }},
	{"cluster", "CLUSTER", print.Text, func(s suspected) any { return s.place.cluster }},
	{"node", "NODE", print.Text, func(s suspected) any { return s.place.node }},
	{"pci_bus_id", "PCI", print.Text, func(s suspected) any { return s.place.address }},
	daysColumn("days_here", "HERE", here),
	daysColumn("days_other_slots", "OTHER SLOTS", otherSlots),
	daysColumn("days_other_nodes", "OTHER NODES", otherNodes),
	daysColumn("days_others_in_slot", "OTHERS IN SLOT", othersInSlot),
	daysColumn("days_others_in_node", "OTHERS IN NODE", othersInNode),
	{"last_fault", "LAST FAULT", print.Time, func(s suspected) any { return s.last }},
}

func daysColumn(name, title string, of int) column[suspected] {
	return column[suspected]{name, title, print.Text, func(s suspected) any {
		if s.days == nil {
			return ""
		}
		return s.days[of].String()
	}}
}

// suspect reports whether the board, its slot or its node is likely to be faulty.
func (q *question) suspect(ctx context.Context) (print.Answer, error) {
	of := q.period()
	found, notices, err := q.find(ctx, of)
	if err != nil {
		return print.Answer{}, err
	}
	a := q.titled(suspectColumns.answer())
	a.Notices = notices
	for _, n := range found {
		if n.unknown != nil {
			a.Rows = append(a.Rows, suspectColumns.row(suspected{name: n.name, serial: n.asset.Serial, suspect: unknownState}))
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

// suspects returns a row for each board of the given name. Notices suggest swaps that would provide more evidence.
func (q *question) suspects(ctx context.Context, of books.Query, name string, rows []books.Row) (print.Answer, error) {
	var all []suspected
	var notices []string
	for _, board := range boardsIn(rows) {
		own, last := newTally(board), board[len(board)-1]
		serial := cmp.Or(last.Serial, last.UUID)
		at, faulty := own.worst()
		if !faulty {
			all = append(all, suspected{name: name, serial: serial, suspect: "none"})
			continue
		}
		neighbours, err := gather(q.source.Rows(ctx, where(where(of, "cluster", at.cluster), "node", at.node)))
		if err != nil {
			return print.Answer{}, err
		}
		e := own.compare(newTally(neighbours), at)
		names, odds := e.suspects()
		all = append(all, suspected{name, serial, strings.Join(names, " or "), &odds, at, &e, own.last})
		if len(names) > 1 {
			notices = append(notices, serial+": "+e.advice(names))
		}
	}
	a := q.titled(suspectColumns.answer(all...))
	a.Notices = notices
	return a, nil
}

func boardsIn(rows []books.Row) [][]books.Row {
	names := make(map[string]string) // by UUID, because a row may lack the serial number
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

func gather(all iter.Seq2[books.Row, error]) (rows []books.Row, err error) {
	for row, err := range all {
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// fails reports whether a GPU failed in an hour: the driver lost the GPU, or its memory errors or an XID show a
// hardware fault.
func fails(g table.GPU) bool {
	return g.Losses > 0 || g.RemappedUncorrectable > 0 || slices.ContainsFunc(hardwareXIDs, func(code string) bool { return g.XIDs[code] > 0 })
}

// sample counts the days of GPUs, and the days with a fault. It counts days because faults on the same day usually have
// the same cause.
type sample struct{ faulty, days int }

func (s sample) String() string { return fmt.Sprintf("%d/%d", s.faulty, s.days) }

func (s sample) and(other sample) sample { return sample{s.faulty + other.faulty, s.days + other.days} }

type stayDay struct {
	place
	uuid string
	day  time.Time
}

// tally contains the days of each GPU in each place. A value is true if the GPU had a fault on this day.
type tally struct {
	days map[stayDay]bool
	last time.Time // hour of the last fault
}

func newTally(rows []books.Row) tally {
	t := tally{days: make(map[stayDay]bool)}
	for _, g := range rows {
		failed := fails(g.GPU)
		if g.Scrapes == 0 && !failed {
			continue // the GPU was not there
		}
		at := stayDay{place{g.Cluster, g.Node, g.SystemUUID, g.PCIBusID}, g.UUID, g.Hour.Truncate(day)}
		t.days[at] = t.days[at] || failed
		if failed {
			t.last = later(t.last, g.Hour)
		}
	}
	return t
}

// worst returns the place with the most faulty days. If there are several, it returns the place with the latest faulty
// day. faulty is false if no place has a faulty day.
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

// same reports whether two places are in the same machine. Unknown system UUIDs are not compared.
func (p place) same(other place) bool {
	return p.cluster == other.cluster && p.node == other.node && (p.machine == other.machine || p.machine == "" || other.machine == "")
}

var hardwareXIDs = xidsWithAlert()

func xidsWithAlert() (codes []string) {
	for _, r := range health.Rules {
		if r.XID != 0 && r.Alert != "" {
			codes = append(codes, strconv.FormatUint(r.XID, 10))
		}
	}
	return codes
}
