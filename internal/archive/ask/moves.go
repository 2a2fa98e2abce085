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

// before is the time before the question in which a board is not new.
const before = day

// moves answers which boards arrived, departed or were swapped.
func (q *question) moves(ctx context.Context) (print.Answer, error) {
	a := print.Answer{Columns: moveColumns}
	of := q.period()
	begin := of.From
	of.From = begin.Add(-before)
	of.Places = true
	uuids, err := q.changed(ctx, of)
	if err != nil || len(uuids) == 0 {
		return a, err
	}
	all, err := stays(ctx, q.source, where(of, "uuid", uuids...))
	if err != nil {
		return a, err
	}
	a.Rows = q.events(all, begin, of.From)
	return a, nil
}

// changed returns the boards that were in several places, or not in all of the time.
func (q *question) changed(ctx context.Context, of books.Selection) ([]string, error) {
	found, err := q.source.Boards(ctx, of)
	if err != nil {
		return nil, err
	}
	type slot struct{ cluster, node, chassis, slot, address string }
	places := make(map[string]map[slot]bool)
	for _, b := range found {
		if places[b.UUID] == nil {
			places[b.UUID] = make(map[slot]bool)
		}
		places[b.UUID][slot{b.Cluster, b.Node, b.ChassisSerial, b.ChassisSlot, b.PCIBusID}] = true
	}
	hours, err := q.bounds(ctx, of)
	if err != nil {
		return nil, err
	}
	always := make(map[string]int)
	for _, hour := range hours {
		part := of
		part.From, part.Until = hour, earlier(hour.Add(time.Hour), of.Until)
		there, err := q.source.Boards(ctx, part)
		if err != nil {
			return nil, err
		}
		seen := make(map[string]bool)
		for _, b := range there {
			if !seen[b.UUID] {
				seen[b.UUID] = true
				always[b.UUID]++
			}
		}
	}
	var uuids []string
	for uuid, slots := range places {
		if len(slots) > 1 || always[uuid] < len(hours) {
			uuids = append(uuids, uuid)
		}
	}
	slices.Sort(uuids)
	return uuids, nil
}

// bounds returns the first and the last filed hour, or one if they are the same.
func (q *question) bounds(ctx context.Context, of books.Selection) (hours []time.Time, err error) {
	err = q.source.Hours(ctx, of, func(h books.Hour) bool {
		hours = append(hours, h.Hour)
		return false
	})
	if err != nil || len(hours) == 0 {
		return hours, err
	}
	for length := time.Hour; ; length *= 4 {
		part, last := of, time.Time{}
		if from := of.Until.Add(-length).Truncate(time.Hour); from.After(hours[0]) {
			part.From = from
		}
		err = q.source.Hours(ctx, part, func(h books.Hour) bool {
			last = h.Hour
			return true
		})
		switch {
		case err != nil || last.Equal(hours[0]):
			return hours, err
		case !last.IsZero():
			return append(hours, last), nil
		}
	}
}

// events returns the events of stays after a moment. Boards that were there in the hours before it did
// not arrive.
func (q *question) events(all []*Stay, begin, first time.Time) (rows [][]any) {
	add := func(at time.Time, event string, s *Stay, cluster, node, replaced string) {
		if at.Before(begin) {
			return
		}
		rows = append(rows, []any{at, event, s.Serial, s.UUID, s.Cluster, s.Node, s.ChassisSerial, s.ChassisSlot, s.PCIBusID, cluster, node, replaced, q.factors.RMA.Note(replaced, s.Serial)})
	}
	previous := make(map[string]*Stay) // by UUID
	occupant := make(map[place]*Stay)
	for _, s := range all {
		at := place{s.Cluster, s.Node, s.SystemUUID, s.PCIBusID}
		replaced := ""
		if other := occupant[at]; other != nil && other.UUID != s.UUID && s.PCIBusID != "" {
			replaced = cmp.Or(other.Serial, other.UUID)
		}
		last := previous[s.UUID]
		switch {
		case s.Start == "moved":
			add(s.First, "moved", s, last.Cluster, last.Node, replaced)
		case s.Start == "returned":
			add(s.First, "returned", s, last.Cluster, last.Node, replaced)
		case s.First.Sub(first) > time.Hour:
			add(s.First, "arrived", s, "", "", replaced)
		}
		if s.End == "silent" || s.End == "lost" || s.End == "replaced" {
			add(s.Last, s.End, s, "", "", "")
		}
		previous[s.UUID], occupant[at] = s, s
	}
	slices.SortStableFunc(rows, func(a, b []any) int {
		return cmp.Or(a[0].(time.Time).Compare(b[0].(time.Time)), cmp.Compare(a[3].(string), b[3].(string)))
	})
	return rows
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

// missing answers which boards are in no place, and for how long.
func (q *question) missing(ctx context.Context) (print.Answer, error) {
	a := print.Answer{Columns: missingColumns}
	of := q.period()
	of.Places = true
	hours, err := q.bounds(ctx, of)
	if err != nil || len(hours) == 0 {
		return a, err
	}
	known, err := q.source.Boards(ctx, of)
	if err != nil {
		return a, err
	}
	last := of
	last.From = hours[len(hours)-1]
	last.Until = earlier(last.From.Add(time.Hour), of.Until)
	there, err := q.source.Boards(ctx, last)
	if err != nil {
		return a, err
	}
	gone := make(map[string]bool)
	for _, b := range known {
		gone[b.UUID] = true
	}
	for _, b := range there {
		delete(gone, b.UUID)
	}
	if len(gone) == 0 {
		return a, nil
	}
	all, err := stays(ctx, q.source, where(of, "uuid", slices.Sorted(maps.Keys(gone))...))
	if err != nil {
		return a, err
	}
	behind := 0
	for _, s := range q.current(all) {
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
		a.Notices = append(a.Notices, fmt.Sprintf("%d boards are not listed: their clusters have no hours after the last ones of the boards", behind))
	}
	slices.SortStableFunc(a.Rows, func(a, b []any) int {
		return cmp.Or(a[9].(time.Time).Compare(b[9].(time.Time)), cmp.Compare(a[1].(string), b[1].(string)))
	})
	return a, nil
}
