package ask

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/print"
)

// The selected time is extended by lookback at its start. If a board was in the same place during lookback, it did not
// arrive in the selected time.
const lookback = day

func (q *question) moves(ctx context.Context) (print.Answer, error) {
	of := q.period()
	begin := of.From
	of.From = begin.Add(-lookback)
	all, err := boardEvents(ctx, q.source, of)
	found := slices.DeleteFunc(grouped(all), func(e boardEvent) bool { return e.At.Before(begin) })
	return q.moveColumns().answer(found...), err
}

func (q *question) moveColumns() columns[boardEvent] {
	return columns[boardEvent]{
		{"time", "TIME", print.Time, func(e boardEvent) any { return e.At }},
		{"event", "EVENT", print.Text, func(e boardEvent) any { return e.Event }},
		{"serial", "SERIAL", print.Text, func(e boardEvent) any { return e.common(func(s *Stay) string { return s.Serial }) }},
		{"uuid", "", print.Text, func(e boardEvent) any { return e.common(func(s *Stay) string { return s.UUID }) }},
		{"gpus", "GPUS", print.Count, func(e boardEvent) any { return int64(len(e.stays)) }},
		{"cluster", "CLUSTER", print.Text, func(e boardEvent) any { return e.stays[0].Cluster }},
		{"node", "NODE", print.Text, func(e boardEvent) any { return e.stays[0].Node }},
		{"chassis_serial", "CHASSIS", print.Text, func(e boardEvent) any { return e.common(func(s *Stay) string { return s.ChassisSerial }) }},
		{"chassis_slot", "SLOT", print.Text, func(e boardEvent) any { return e.common(func(s *Stay) string { return s.ChassisSlot }) }},
		{"pci_bus_id", "PCI", print.Text, func(e boardEvent) any { return e.common(func(s *Stay) string { return s.PCIBusID }) }},
		{"previous_cluster", "", print.Text, func(e boardEvent) any { return e.cluster }},
		{"previous_node", "FROM NODE", print.Text, func(e boardEvent) any { return e.node }},
		{"previous_serial", "REPLACES", print.Text, func(e boardEvent) any { return e.replaced }},
		{"rma", "RMA", print.Text, func(e boardEvent) any {
			if len(e.stays) > 1 {
				return ""
			}
			return q.factors.RMA.Note(e.replaced, e.stays[0].Serial)
		}},
	}
}

func (e boardEvent) common(value func(*Stay) string) string {
	text := value(e.stays[0])
	if slices.ContainsFunc(e.stays, func(s *Stay) bool { return value(s) != text }) {
		return ""
	}
	return text
}

// The result is zero if there is no data. lastFiled begins at the end of the period, and reads longer parts until it
// finds an hour.
func (q *question) lastFiled(ctx context.Context, of books.Query) (last time.Time, err error) {
	for length := time.Hour; ; length *= 4 {
		part := of
		part.From = later(of.From, of.Until.Add(-length).Truncate(time.Hour))
		for h, err := range q.source.Hours(ctx, part) {
			if err != nil {
				return last, err
			}
			last = h.Hour
		}
		if !last.IsZero() || part.From.Equal(of.From) {
			return last, nil
		}
	}
}

func (q *question) gone(ctx context.Context, of books.Query) ([]string, error) {
	hour, err := q.lastFiled(ctx, of)
	if err != nil || hour.IsZero() {
		return nil, err
	}
	known, err := q.source.Boards(ctx, of)
	if err != nil {
		return nil, err
	}
	last := of
	last.From, last.Until = hour, earlier(hour.Add(time.Hour), of.Until)
	there, err := q.source.Boards(ctx, last)
	if err != nil {
		return nil, err
	}
	gone := make(map[string]bool)
	for _, b := range known {
		gone[b.UUID] = true
	}
	for _, b := range there {
		delete(gone, b.UUID)
	}
	return slices.Sorted(maps.Keys(gone)), nil
}

func (q *question) missingColumns(at time.Time) columns[*listed] {
	return columns[*listed]{
		{"serial", "SERIAL", print.Text, func(l *listed) any { return l.Serial }},
		{"uuid", "", print.Text, func(l *listed) any { return l.UUID }},
		{"asset_tag", "ASSET", print.Text, func(l *listed) any { return l.asset.Tag }},
		{"end_event", "ENDED", print.Text, func(l *listed) any { return l.End }},
		{"cluster", "CLUSTER", print.Text, func(l *listed) any { return l.Cluster }},
		{"node", "LAST NODE", print.Text, func(l *listed) any { return l.Node }},
		{"chassis_serial", "CHASSIS", print.Text, func(l *listed) any { return l.ChassisSerial }},
		{"chassis_slot", "SLOT", print.Text, func(l *listed) any { return l.ChassisSlot }},
		{"pci_bus_id", "PCI", print.Text, func(l *listed) any { return l.PCIBusID }},
		{"last_seen", "LAST SEEN", print.Time, (*listed).lastSeen},
		{"missing_ms", "HOURS", print.Span, func(l *listed) any { return at.Sub(l.Last).Milliseconds() }},
		{"warranty", "WARRANTY", print.Text, func(l *listed) any { return l.asset.Warranty }},
		{"rma", "RMA", print.Text, func(l *listed) any { return q.factors.RMA.Note(l.Serial, "") }},
	}
}

func (q *question) missing(ctx context.Context) (print.Answer, error) {
	of := q.period()
	of.Places = true
	uuids, err := q.gone(ctx, of)
	if err != nil {
		return print.Answer{}, err
	}
	var all []*Stay
	if len(uuids) > 0 {
		all, err = stays(ctx, q.source, where(of, "uuid", uuids...))
	}
	if err != nil {
		return print.Answer{}, err
	}
	current := q.current(all)
	if err := q.replaced(ctx, current, of); err != nil {
		return print.Answer{}, err
	}
	var rows []*listed
	for _, s := range current {
		if !s.MissingSince.IsZero() {
			rows = append(rows, &listed{Stay: s, asset: q.assets.Of(s.Serial)})
		}
	}
	slices.SortStableFunc(rows, func(a, b *listed) int { return cmp.Or(a.Last.Compare(b.Last), cmp.Compare(a.UUID, b.UUID)) })
	a := q.missingColumns(of.Until).answer(rows...)
	if behind := len(current) - len(rows); behind > 0 {
		a.Notices = append(a.Notices, fmt.Sprintf("%d boards are not listed: the books contain no hour of their clusters after the last hour of the board, so it is unknown whether the board is missing", behind))
	}
	return a, nil
}
