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
)

// whereColumns are the columns of the answer to where.
var whereColumns = []print.Column{
	{Name: "serial", Title: "SERIAL"},
	{Name: "uuid"},
	{Name: "asset_tag", Title: "ASSET"},
	{Name: "model", Title: "MODEL"},
	{Name: "state", Title: "STATE"},
	{Name: "cluster", Title: "CLUSTER"},
	{Name: "node", Title: "NODE"},
	{Name: "machine"},
	{Name: "system_uuid"},
	{Name: "chassis_serial", Title: "CHASSIS"},
	{Name: "chassis_slot", Title: "SLOT"},
	{Name: "tray_index", Title: "TRAY"},
	{Name: "pci_bus_id", Title: "PCI"},
	{Name: "since", Title: "SINCE", Kind: print.Time},
	{Name: "last_seen", Title: "LAST SEEN", Kind: print.Time},
	{Name: "holders", Title: "HOLDERS"},
	{Name: "xids", Title: "XIDS"},
}

// Of more than someBoards boards, only someDays are read unless --since is set: a sample a minute.
const (
	someBoards = 16
	someDays   = 14 * day
)

// xidDays is the number of days before the last scrape of which XID errors are listed.
const xidDays = 7

// where answers where boards are, or were last.
func (q *question) where(ctx context.Context) (print.Answer, error) {
	of := q.period()
	uuids, kind, notices, err := q.boards(ctx, q.name, of)
	if err != nil {
		return print.Answer{}, err
	}
	a := print.Answer{Columns: whereColumns, Notices: notices}
	of = where(of, "uuid", uuids...)
	of.Places = true
	if from := of.Until.Add(-someDays); len(uuids) > someBoards && !q.since && q.From.IsZero() && of.From.Before(from) {
		of.From = from.Truncate(time.Hour)
		a.Notices = append(a.Notices, fmt.Sprintf("of %d boards only the time since %s was read: set --since for more", len(uuids), stamp(of.From)))
	}
	all, err := stays(ctx, q.source, of)
	if err != nil {
		return a, err
	}
	name := q.name
	if serial := q.assets.SerialOf(name); serial != "" {
		name = serial
	}
	for _, s := range q.current(all) {
		if kind == "node" && s.Node != name || kind == "chassis" && s.ChassisSerial != name {
			continue // it is elsewhere
		}
		row, err := q.whereRow(ctx, s, of)
		if err != nil {
			return a, err
		}
		a.Rows = append(a.Rows, row)
	}
	if last := newest(all); of.Until.Sub(last) > 2*time.Hour && len(a.Rows) > 0 {
		a.Notices = append(a.Notices, fmt.Sprintf("the boards have no hour after %s: they are gone, or the books are behind", stamp(last)))
	}
	if len(a.Rows) == 0 {
		a.Notices = append(a.Notices, fmt.Sprintf("the %d boards of %s are elsewhere now: ask for their history", len(uuids), q.name))
	}
	return a, nil
}

// newest returns the end of the last hour of stays.
func newest(all []*Stay) (end time.Time) {
	for _, s := range all {
		if at := s.LastHour.Add(time.Hour); at.After(end) {
			end = at
		}
	}
	return end
}

// current returns the stay of each GPU at the time of the question, by place.
func (q *question) current(all []*Stay) (found []*Stay) {
	latest := make(map[string]*Stay)
	for _, s := range all {
		if latest[s.UUID] == nil || q.At.IsZero() || !s.First.After(q.At.Time) {
			latest[s.UUID] = s
		}
	}
	return slices.SortedFunc(maps.Values(latest), func(a, b *Stay) int {
		return strings.Compare(strings.Join([]string{a.Cluster, a.Node, a.PCIBusID, a.UUID}, "\x00"), strings.Join([]string{b.Cluster, b.Node, b.PCIBusID, b.UUID}, "\x00"))
	})
}

func (q *question) whereRow(ctx context.Context, s *Stay, of books.Selection) ([]any, error) {
	last := s.LastHour
	if at := q.At.Truncate(time.Hour); !q.At.IsZero() && at.Before(last) {
		last = at
	}
	hour := where(books.Selection{From: last, Until: last.Add(time.Hour), Where: of.Where}, "uuid", s.UUID)
	if hour.Until.After(of.Until) {
		hour.Until = of.Until
	}
	holders, err := q.holders(ctx, hour)
	if err != nil {
		return nil, err
	}
	hour.From = hour.From.AddDate(0, 0, -xidDays)
	var xids []string
	err = q.source.GPUs(ctx, hour, func(g books.GPU) {
		for _, code := range slices.Sorted(maps.Keys(g.XIDs)) {
			xids = append(xids, fmt.Sprintf("%s at %s", code, g.Hour.In(q.zone).Format("2006-01-02 15h")))
		}
	})
	if err != nil {
		return nil, err
	}
	slices.Reverse(xids)
	return []any{
		s.Serial, s.UUID, q.assets.TagOf(s.Serial), s.Model, state(s, of.Until), s.Cluster, s.Node, s.Machine, s.SystemUUID, s.ChassisSerial, s.ChassisSlot,
		s.TrayIndex, s.PCIBusID, s.First, s.Last, strings.Join(holders, " "), strings.Join(xids[:min(len(xids), 5)], ", "),
	}, nil
}

// holders returns the pods and units that held or used GPUs, as namespace/pod or manager/unit.
func (q *question) holders(ctx context.Context, of books.Selection) (names []string, err error) {
	charges, err := q.source.Charges(ctx, of, "namespace", "pod", "manager", "unit", "reason")
	for _, c := range charges {
		if c.Reason == "" {
			names = append(names, owner(c.Namespace, c.Pod, c.Manager, c.Unit))
		}
	}
	return names, err
}

// owner returns the name of a pod, or of a unit.
func owner(namespace, pod, manager, unit string) string {
	if unit != "" {
		return manager + "/" + unit
	}
	return namespace + "/" + pod
}

// state returns whether a GPU is in its place: present, or how it went.
func state(s *Stay, until time.Time) string {
	switch {
	case s.End != "":
		return s.End
	case until.Sub(s.Last) > settle && until.Sub(s.LastHour) > 0 && earlier(s.LastHour.Add(time.Hour), until).Sub(s.Last) > settle:
		return "silent"
	}
	return "present"
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
