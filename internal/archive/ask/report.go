package ask

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/print"
)

// report writes everything about a board on a page.
func (q *question) report(ctx context.Context, w io.Writer, style print.Style) error {
	of := q.period()
	uuids, _, notices, err := q.boards(ctx, q.name, of)
	if err != nil {
		return err
	}
	pruned, err := q.pruned(ctx, of)
	if err != nil {
		return err
	}
	notices = append(notices, pruned...)
	all, err := stays(ctx, q.source, where(of, "uuid", uuids...))
	if err != nil {
		return err
	}
	used, err := q.ran(ctx) // next to the stays: the source keeps the hours that it read last
	if err != nil {
		return err
	}
	if err := q.successors(ctx, all, of); err != nil {
		return err
	}
	place, err := q.where(ctx)
	if err != nil {
		return err
	}
	history := print.Answer{Columns: historyColumns}
	serial := q.name
	for _, s := range all {
		history.Rows = append(history.Rows, historyRow(s))
		if s.Serial != "" {
			serial = s.Serial
		}
	}
	title := "Board " + serial
	sections := []print.Section{
		{Title: "Identity and last place", Answer: place},
		{Title: "Asset", Answer: q.asset(serial)},
		{Title: "Stays", Answer: history},
		{Title: "Errors", Answer: health(all)},
		{Title: "Use by pods and units", Answer: used},
		{Title: "About this page", Answer: print.Answer{Notices: append(append(notices, q.refused()...),
			fmt.Sprintf("From %s, %s to %s UTC. Times are in %s, energy is in kWh.", q.source.Name(), stamp(of.From), stamp(of.Until), q.TZ))}},
	}
	return print.Page(w, q.Output, title, sections, style)
}

// asset returns the lines of the lists of assets and RMAs about a board.
func (q *question) asset(serial string) print.Answer {
	a := print.Answer{Columns: []print.Column{
		{Name: "serial", Title: "SERIAL"}, {Name: "tag", Title: "TAG"}, {Name: "warranty", Title: "WARRANTY"}, {Name: "order", Title: "ORDER"}, {Name: "site", Title: "SITE"}, {Name: "rma", Title: "RMA"},
	}}
	asset, note := q.assets.Of(serial), q.factors.RMA.Note(serial, serial)
	if asset.Serial != "" || note != "" {
		a.Rows = [][]any{{serial, asset.Tag, asset.Warranty, asset.Order, asset.Site, note}}
	}
	return a
}

// health lists the errors of a board by hour.
func health(all []*Stay) print.Answer {
	a := print.Answer{Columns: []print.Column{
		{Name: "hour", Title: "HOUR", Kind: print.Time}, {Name: "node", Title: "NODE"}, {Name: "xid", Title: "XID"}, {Name: "count", Title: "COUNT", Kind: print.Count},
	}}
	for _, s := range all {
		for _, g := range s.XIDHours {
			for _, code := range slices.Sorted(maps.Keys(g.XIDs)) {
				a.Rows = append(a.Rows, []any{g.Hour, g.Node, code, g.XIDs[code]})
			}
		}
	}
	var sum books.GPU
	for _, s := range all {
		sum.Losses += s.Losses
		sum.RemappedCorrectable += s.RemappedCorrectable
		sum.RemappedUncorrectable += s.RemappedUncorrectable
	}
	if sum.Losses+sum.RemappedCorrectable+sum.RemappedUncorrectable > 0 {
		a.Notices = append(a.Notices, fmt.Sprintf("The driver lost the board %d times. Memory rows remapped: %d for correctable, %d for uncorrectable errors.",
			sum.Losses, sum.RemappedCorrectable, sum.RemappedUncorrectable))
	}
	return a
}
