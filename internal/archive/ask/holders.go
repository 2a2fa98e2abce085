package ask

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

type detail struct {
	holders, past []string    // namespace/pod or manager/unit
	xids          print.Hours // codes of XID errors, latest first
	errors        table.GPU
}

// details returns the pods, units and errors of boards at the times of their last scrapes, by UUID. Boards with the
// same last hour share one read.
func (q *question) details(ctx context.Context, known []*Stay, of books.Query) (map[string]*detail, error) {
	all, hours := make(map[string]*detail), make(map[time.Time]map[string]*Stay)
	for _, s := range q.current(known) {
		all[s.UUID] = new(detail)
		if hours[s.LastHour] == nil {
			hours[s.LastHour] = make(map[string]*Stay)
		}
		hours[s.LastHour][s.UUID] = s
	}
	for hour, stays := range hours {
		selected := where(books.Query{From: hour, Until: earlier(hour.Add(time.Hour), of.Until), Where: of.Where}, "uuid", slices.Sorted(maps.Keys(stays))...)
		holders, err := q.holders(ctx, stays, known, selected)
		if err != nil {
			return nil, err
		}
		for _, h := range holders {
			all[h.UUID].add(h, stays[h.UUID])
		}
		selected.From = selected.From.AddDate(0, 0, -xidDays)
		for g, err := range q.source.Rows(ctx, selected) {
			if err != nil {
				return nil, err
			}
			d := all[g.UUID]
			d.errors.AddErrors(&g.GPU)
			for _, code := range slices.Sorted(maps.Keys(g.XIDs)) {
				d.xids = append(d.xids, print.TextHour{Text: code, Hour: g.Hour})
			}
		}
	}
	for _, d := range all {
		d.holders = unique(d.holders)
		d.past = slices.DeleteFunc(unique(d.past), func(name string) bool { return slices.Contains(d.holders, name) })
		slices.Reverse(d.xids)
	}
	return all, nil
}

// The field holders lists pods and units that used the board at its last scrape. past lists pods and units that used
// the board in the hour before.
func (d *detail) add(h books.Holder, s *Stay) {
	name := owner(h.Namespace, h.Pod, h.Manager, h.Unit)
	switch {
	case !h.Ended && h.Node == s.Node && h.Cluster == s.Cluster:
		d.holders = append(d.holders, name)
	case h.Last.IsZero() || h.Last.After(s.Last.Add(-time.Hour)):
		d.past = append(d.past, name)
	}
}

// holders returns the pods and units that used boards in the hour before the last scrape of each board. An archive
// contains only hourly charges, so the query must select the hours of these scrapes, and the results contain no end
// times. If a board moved within an hour, pods and units that used it in the next place are omitted.
func (q *question) holders(ctx context.Context, stays map[string]*Stay, known []*Stay, of books.Query) (all []books.Holder, err error) {
	if source, ok := q.source.Source.(books.Momentary); ok {
		first, last := of.Until, of.From
		for _, s := range stays {
			first = earlier(first, s.Last)
			last = later(last, s.Last)
		}
		of.From, of.Until = first.Add(-time.Hour), last
		return source.Holders(ctx, of)
	}
	of.By = []string{"cluster", "node", "uuid", "namespace", "pod", "manager", "unit", "reason"}
	st, err := q.source.Statement(ctx, of)
	if err != nil {
		return nil, err
	}
	for _, c := range st.Charges {
		if c.Reason == "" && slices.ContainsFunc(known, func(s *Stay) bool { return s.UUID == c.UUID && s.Node == c.Node && s.Cluster == c.Cluster }) {
			all = append(all, books.Holder{Cluster: c.Cluster, Node: c.Node, UUID: c.UUID, Namespace: c.Namespace, Pod: c.Pod, Manager: c.Manager, Unit: c.Unit})
		}
	}
	return all, nil
}

func unique(names []string) (all []string) {
	for _, name := range names {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

func owner(namespace, pod, manager, unit string) string {
	if unit != "" {
		return manager + "/" + unit
	}
	return namespace + "/" + pod
}
