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

// moveColumns are the columns of events of boards.
var moveColumns = []print.Column{
	{Name: "time", Title: "TIME", Kind: print.Time},
	{Name: "event", Title: "EVENT"},
	{Name: "serial", Title: "SERIAL"},
	{Name: "uuid"},
	{Name: "gpus", Title: "GPUS", Kind: print.Count},
	{Name: "cluster", Title: "CLUSTER"},
	{Name: "node", Title: "NODE"},
	{Name: "chassis_serial", Title: "CHASSIS"},
	{Name: "chassis_slot", Title: "SLOT"},
	{Name: "pci_bus_id", Title: "PCI"},
	{Name: "previous_cluster"},
	{Name: "previous_node", Title: "FROM NODE"},
	{Name: "previous_serial", Title: "REPLACES"},
	{Name: "rma", Title: "RMA"},
}

// before is the length of the period before the selected time that is also read: a board that was
// there in this period is not new.
const before = day

// moves lists the boards that arrived, departed or were swapped.
func (q *question) moves(ctx context.Context) (print.Answer, error) {
	a := print.Answer{Columns: moveColumns}
	of := q.period()
	begin := of.From
	of.From = begin.Add(-before)
	all, err := boardEvents(ctx, q.source, of)
	for _, e := range grouped(all) {
		if !e.At.Before(begin) {
			a.Rows = append(a.Rows, q.moveRow(e))
		}
	}
	return a, err
}

// moveRow returns an event of some boards. Values that differ between the boards are empty.
func (q *question) moveRow(e boardEvent) []any {
	common := func(value func(*Stay) string) string {
		text := value(e.stays[0])
		if slices.ContainsFunc(e.stays, func(s *Stay) bool { return value(s) != text }) {
			return ""
		}
		return text
	}
	serial := common(func(s *Stay) string { return s.Serial })
	rma := ""
	if len(e.stays) == 1 {
		rma = q.factors.RMA.Note(e.replaced, serial)
	}
	return []any{
		e.At, e.Event, serial, common(func(s *Stay) string { return s.UUID }), int64(len(e.stays)), e.stays[0].Cluster, e.stays[0].Node,
		common(func(s *Stay) string { return s.ChassisSerial }), common(func(s *Stay) string { return s.ChassisSlot }), common(func(s *Stay) string { return s.PCIBusID }),
		e.cluster, e.node, e.replaced, rma,
	}
}

// bounds returns the first and the last filed hour, or a single hour if they are the same.
func (q *question) bounds(ctx context.Context, of books.Query) (hours []time.Time, err error) {
	for h, err := range q.source.Hours(ctx, of) {
		if err != nil {
			return nil, err
		}
		hours = append(hours, h.Hour)
		break
	}
	if len(hours) == 0 {
		return nil, nil
	}
	for length := time.Hour; ; length *= 4 {
		part, last := of, time.Time{}
		if from := of.Until.Add(-length).Truncate(time.Hour); from.After(hours[0]) {
			part.From = from
		}
		for h, err := range q.source.Hours(ctx, part) {
			if err != nil {
				return nil, err
			}
			last = h.Hour
		}
		switch {
		case last.Equal(hours[0]):
			return hours, nil
		case !last.IsZero():
			return append(hours, last), nil
		}
	}
}

// gone returns the UUIDs of the boards that are in no place in the last filed hour, sorted.
func (q *question) gone(ctx context.Context, of books.Query) ([]string, error) {
	hours, err := q.bounds(ctx, of)
	if err != nil || len(hours) == 0 {
		return nil, err
	}
	known, err := q.source.Boards(ctx, of)
	if err != nil {
		return nil, err
	}
	last := of
	last.From = hours[len(hours)-1]
	last.Until = earlier(last.From.Add(time.Hour), of.Until)
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

// missingColumns are the columns of boards that are in no place.
var missingColumns = []print.Column{
	{Name: "serial", Title: "SERIAL"},
	{Name: "uuid"},
	{Name: "asset_tag", Title: "ASSET"},
	{Name: "end_event", Title: "ENDED"},
	{Name: "cluster", Title: "CLUSTER"},
	{Name: "node", Title: "LAST NODE"},
	{Name: "chassis_serial", Title: "CHASSIS"},
	{Name: "chassis_slot", Title: "SLOT"},
	{Name: "pci_bus_id", Title: "PCI"},
	{Name: "last_seen", Title: "LAST SEEN", Kind: print.Time},
	{Name: "missing_ms", Title: "HOURS", Kind: print.Span},
	{Name: "warranty", Title: "WARRANTY"},
	{Name: "rma", Title: "RMA"},
}

// missing lists the boards without a place, and for how long.
func (q *question) missing(ctx context.Context) (print.Answer, error) {
	a := print.Answer{Columns: missingColumns}
	of := q.period()
	of.Places = true
	uuids, err := q.gone(ctx, of)
	if err != nil || len(uuids) == 0 {
		return a, err
	}
	all, err := stays(ctx, q.source, where(of, "uuid", uuids...))
	if err != nil {
		return a, err
	}
	current, behind := q.current(all), 0
	if err := q.replaced(ctx, current, of); err != nil {
		return a, err
	}
	for _, s := range current {
		if s.MissingSince.IsZero() {
			behind++
			continue
		}
		asset := q.assets.Of(s.Serial)
		a.Rows = append(a.Rows, []any{
			s.Serial, s.UUID, asset.Tag, s.End, s.Cluster, s.Node, s.ChassisSerial, s.ChassisSlot, s.PCIBusID, s.Last, of.Until.Sub(s.Last).Milliseconds(),
			asset.Warranty, q.factors.RMA.Note(s.Serial, ""),
		})
	}
	if behind > 0 {
		a.Notices = append(a.Notices, fmt.Sprintf("%d boards are not listed: their clusters have no later hours than these boards", behind))
	}
	slices.SortStableFunc(a.Rows, func(a, b []any) int {
		return cmp.Or(a[9].(time.Time).Compare(b[9].(time.Time)), cmp.Compare(a[1].(string), b[1].(string)))
	})
	return a, nil
}
