package ask

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// historyColumns are the columns of stays, with the errors that occurred during them.
var historyColumns = slices.Concat([]print.Column{
	{Name: "serial", Title: "SERIAL"},
	{Name: "uuid"},
	{Name: "cluster", Title: "CLUSTER"},
	{Name: "node", Title: "NODE"},
	{Name: "machine"},
	{Name: "system_uuid"},
	{Name: "chassis_serial", Title: "CHASSIS"},
	{Name: "chassis_slot", Title: "SLOT"},
	{Name: "tray_index", Title: "TRAY"},
	{Name: "pci_bus_id", Title: "PCI"},
	{Name: "start_event", Title: "BEGAN"},
	{Name: "first_seen", Title: "FIRST SEEN", Kind: print.Time},
	{Name: "last_seen", Title: "LAST SEEN", Kind: print.Time},
	{Name: "end_event", Title: "ENDED"},
	{Name: "missing_since", Kind: print.Time},
	{Name: "replaced_by", Title: "REPLACED BY"},
	{Name: "energy_mj", Title: "KWH", Kind: print.Energy},
	{Name: "xids", Title: "XIDS"},
	{Name: "losses", Kind: print.Count},
	{Name: "lifetime_uncorrectable_before", Kind: print.Count},
}, errorColumns)

// history lists the places of boards, with a row for each stay.
func (q *question) history(ctx context.Context) (print.Answer, error) {
	of := q.period()
	found, notices, err := q.find(ctx, of)
	if err != nil {
		return print.Answer{}, err
	}
	a := print.Answer{Columns: q.columns(historyColumns), Notices: notices}
	all, err := q.stays(ctx, of, uuids(found))
	if err != nil {
		return a, err
	}
	for _, n := range found {
		if n.unknown != nil {
			a.Rows = append(a.Rows, historyRow(n.name, &Stay{Start: unknownState, GPU: table.GPU{Serial: n.asset.Serial}}))
		}
		a.Rows = append(a.Rows, n.historyRows(all)...)
	}
	return withoutZeros(a), nil
}

// stays returns the stays of boards with their successors.
func (q *question) stays(ctx context.Context, of books.Query, uuids []string) ([]*Stay, error) {
	if len(uuids) == 0 {
		return nil, nil
	}
	all, err := stays(ctx, q.source, where(of, "uuid", uuids...))
	if err != nil {
		return nil, err
	}
	return all, q.successors(ctx, all, of)
}

// historyRows returns the rows of the stays of a name.
func (n named) historyRows(all []*Stay) (rows [][]any) {
	for _, s := range all {
		if slices.Contains(n.uuids, s.UUID) && !n.elsewhere(s) {
			rows = append(rows, historyRow(n.name, s))
		}
	}
	return rows
}

func historyRow(name string, s *Stay) []any {
	next := ""
	if s.NextBoard != nil {
		next = boardOf(s.NextBoard)
	}
	return append([]any{
		name, s.Serial, s.UUID, s.Cluster, s.Node, s.Machine, s.SystemUUID, s.ChassisSerial, s.ChassisSlot, s.TrayIndex, s.PCIBusID, s.Start, s.First, s.Last,
		s.End, s.MissingSince, next, s.Energy, xids(s.XIDHours), s.Losses, number(lifetimeBefore(&s.GPU)),
	}, errorValues(&s.GPU)...)
}

// lifetimeBefore returns the uncorrectable errors over the life of a board before the counted
// errors.
func lifetimeBefore(g *table.GPU) *int64 {
	grown := plus(g.DRAMUncorrectable, g.SRAMUncorrectable)
	if g.LifetimeUncorrectable == nil || grown == nil {
		return nil
	}
	return new(max(0, *g.LifetimeUncorrectable-*grown))
}

// withoutZeros omits columns of errors from text in which no row has an error.
func withoutZeros(a print.Answer) print.Answer {
	a.Columns = slices.Clone(a.Columns)
	for i, c := range a.Columns {
		if !slices.Contains(errorColumns, c) {
			continue
		}
		some := slices.ContainsFunc(a.Rows, func(row []any) bool { return !slices.Contains([]any{nil, int64(0), "", "none"}, row[i]) })
		if !some {
			a.Columns[i].Title = ""
		}
	}
	return a
}

// withoutErrors omits all columns of errors from text.
func withoutErrors(a print.Answer) print.Answer {
	columns := a.Columns
	a.Columns = nil
	for _, c := range columns {
		if slices.Contains(errorColumns, c) {
			c.Title = ""
		}
		a.Columns = append(a.Columns, c)
	}
	return a
}

// xids adds up the XID errors of hours, as code=count.
func xids(hours []table.GPU) string {
	sums := make(map[string]int64)
	for _, g := range hours {
		for code, n := range g.XIDs {
			sums[code] += n
		}
	}
	var all []string
	for _, code := range slices.Sorted(maps.Keys(sums)) {
		all = append(all, fmt.Sprintf("%s=%d", code, sums[code]))
	}
	return strings.Join(all, " ")
}

// successors finds the boards that are now in the places of removed boards. It queries them
// separately, because the stays of the selected boards do not include them.
func (q *question) successors(ctx context.Context, all []*Stay, of books.Query) error {
	for _, s := range all {
		if s.PCIBusID == "" {
			continue
		}
		next, err := q.successor(ctx, s, of)
		if err != nil {
			return err
		}
		s.NextBoard = next
		if next != nil && s.End != "moved" && (s.MissingSince.IsZero() || !next.First.After(s.MissingSince.Add(time.Hour))) {
			s.End = replaced
		}
	}
	return nil
}

// successor returns the first later stay of another board in the same place, or nil if there is
// none.
func (q *question) successor(ctx context.Context, s *Stay, of books.Query) (next *Stay, err error) {
	of = where(where(of, "cluster", s.Cluster), "node", s.Node)
	of.From, of.Places = s.LastHour, true
	found, err := q.source.Boards(ctx, of)
	if err != nil {
		return nil, err
	}
	uuids := s.others(found)
	if len(uuids) == 0 {
		return nil, nil
	}
	for row, err := range q.source.Rows(ctx, where(of, "uuid", uuids...)) {
		if err != nil {
			return nil, err
		}
		if g := row.GPU; g.Scrapes > 0 && g.First.After(s.Last) && !moved(s.GPU, g) && g.PCIBusID == s.PCIBusID {
			return newStay(g, "seen"), nil
		}
	}
	return nil, nil
}

// others returns the UUIDs of the other boards at the address of a stay, sorted.
func (s *Stay) others(boards []books.Board) []string {
	uuids := make(map[string]bool)
	for _, b := range boards {
		if b.PCIBusID == s.PCIBusID && b.UUID != s.UUID {
			uuids[b.UUID] = true
		}
	}
	return slices.Sorted(maps.Keys(uuids))
}
