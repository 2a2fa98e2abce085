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

var historyColumns = slices.Concat(boardColumns, placeColumns, columns[*listed]{
	{"start_event", "BEGAN", print.Text, func(l *listed) any { return l.Start }},
	{"first_seen", "FIRST SEEN", print.Time, func(l *listed) any { return l.First }},
	{"last_seen", "LAST SEEN", print.Time, (*listed).lastSeen},
	{"end_event", "ENDED", print.Text, func(l *listed) any { return l.End }},
	{"missing_since", "", print.Time, func(l *listed) any { return l.MissingSince }},
	{"replaced_by", "REPLACED BY", print.Text, (*listed).replacedBy},
	{"energy_mj", "KWH", print.Energy, func(l *listed) any { return l.Energy }},
	{"xids", "XIDS", print.Text, func(l *listed) any { return xids(l.XIDHours) }},
	{"losses", "", print.Count, func(l *listed) any { return l.Losses }},
}, errorsOfStay)

func (q *question) history(ctx context.Context) (print.Answer, error) {
	of := q.period()
	found, notices, err := q.find(ctx, of)
	if err != nil {
		return print.Answer{}, err
	}
	all, err := q.stays(ctx, of, uuids(found))
	if err != nil {
		return print.Answer{}, err
	}
	a := q.titled(historyColumns.answer(q.listed(found, all, of.Until)...))
	a.Notices = notices
	return withoutZeros(a), nil
}

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

func (l *listed) replacedBy() any {
	if l.NextBoard == nil {
		return ""
	}
	return boardOf(l.NextBoard)
}

// lifetimeBefore returns the lifetime number of uncorrectable errors at the start of the period.
func lifetimeBefore(g *table.GPU) *int64 {
	grown := plus(g.DRAMUncorrectable, g.SRAMUncorrectable)
	if g.LifetimeUncorrectable == nil || grown == nil {
		return nil
	}
	return new(max(0, *g.LifetimeUncorrectable-*grown))
}

// withoutZeros omits error columns from text if no row has such an error.
func withoutZeros(a print.Answer) print.Answer {
	a.Columns = slices.Clone(a.Columns)
	for i, c := range a.Columns {
		if !errorColumns.contains(c.Name) {
			continue
		}
		some := slices.ContainsFunc(a.Rows, func(row []any) bool { return !slices.Contains([]any{nil, int64(0), "", "none"}, row[i]) })
		if !some {
			a.Columns[i].Title = ""
		}
	}
	return a
}

func withoutErrors(a print.Answer) print.Answer {
	columns := a.Columns
	a.Columns = nil
	for _, c := range columns {
		if errorColumns.contains(c.Name) {
			c.Title = ""
		}
		a.Columns = append(a.Columns, c)
	}
	return a
}

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

// successors finds the boards that are now in the places of removed boards. It needs another query, because the first
// query selects only the removed boards.
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

// The result is nil if no other board was in the same place.
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

func (s *Stay) others(boards []books.Board) []string {
	uuids := make(map[string]bool)
	for _, b := range boards {
		if b.PCIBusID == s.PCIBusID && b.UUID != s.UUID {
			uuids[b.UUID] = true
		}
	}
	return slices.Sorted(maps.Keys(uuids))
}
