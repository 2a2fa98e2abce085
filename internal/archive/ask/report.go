package ask

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

func (q *question) report(ctx context.Context) (pages []print.Page, err error) {
	of := q.period()
	found, notices, err := q.find(ctx, of)
	if err != nil {
		return nil, err
	}
	pruned, err := q.pruned(ctx, of)
	if err != nil {
		return nil, err
	}
	for _, n := range found {
		page, err := q.page(ctx, of, n)
		if err != nil {
			return nil, err
		}
		about := append(append(slices.Clone(notices), pruned...), q.refused()...)
		about = append(about, fmt.Sprintf("From %s, %s to %s UTC. Times are in %s, energy is in kWh.", q.source.Name(), stamp(of.From), stamp(of.Until), q.TZ))
		page.Sections = append(page.Sections, print.Section{Title: "About this page", Answer: print.Answer{Notices: about}})
		pages = append(pages, page)
	}
	return pages, nil
}

func (q *question) page(ctx context.Context, of books.Query, n named) (print.Page, error) {
	if n.unknown != nil {
		return print.Page{Title: "Board " + n.name, Sections: []print.Section{
			{Title: "Asset", Answer: q.asset(n.value)}, {Title: "Books", Answer: print.Answer{Notices: []string{n.unknown.Error()}}},
		}}, nil
	}
	selected := where(of, "uuid", n.uuids...)
	selected.By, selected.Rows = useColumns, true
	st, err := q.source.Statement(ctx, selected)
	if err != nil {
		return print.Page{}, err
	}
	all, err := staysIn(ctx, q.source, of, st.Rows)
	if err != nil {
		return print.Page{}, err
	}
	if err := q.successors(ctx, all, of); err != nil {
		return print.Page{}, err
	}
	place, err := q.places(ctx, q.moment(), []named{n})
	if err != nil {
		return print.Page{}, err
	}
	suspects, err := q.suspects(ctx, of, n.name, st.Rows)
	if err != nil {
		return print.Page{}, err
	}
	var history []*listed
	serial := n.value
	for _, s := range all {
		history = append(history, &listed{name: n.name, Stay: s, errors: &s.GPU})
		serial = cmp.Or(s.Serial, serial)
	}
	return print.Page{Title: "Board " + serial, Sections: slices.Concat([]print.Section{
		{Title: "Identity and last place", Answer: distinct(withoutErrors(place))},
		{Title: "Asset", Answer: q.asset(serial)},
		{Title: "Stays", Answer: distinct(withoutZeros(q.titled(historyColumns.answer(history...))))},
		{Title: "Errors", Answer: faults(all)},
	}, recordedErrors(st.Rows), []print.Section{
		{Title: "Suspect: days with faults / all days", Answer: suspects},
		{Title: "Use by pods and units", Answer: distinct(ranColumns.answer(uses(st.Charges)...))},
	})}, nil
}

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

// recordedErrors returns no section if the error counts of the board are unknown.
func recordedErrors(rows []books.Row) []print.Section {
	var sum table.GPU
	for i := range rows {
		sum.AddErrors(&rows[i].GPU)
	}
	if !recorded(&sum) {
		return nil
	}
	return []print.Section{{Title: "Memory, links and clocks", Answer: errorColumns.answer(&sum)}}
}

func faults(all []*Stay) print.Answer {
	a := print.Answer{Columns: []print.Column{
		{Name: "hour", Title: "HOUR", Kind: print.Time}, {Name: "node", Title: "NODE"}, {Name: "xid", Title: "XID"}, {Name: "count", Title: "COUNT", Kind: print.Count},
	}}
	var sum table.GPU
	for _, s := range all {
		for _, g := range s.XIDHours {
			for _, code := range slices.Sorted(maps.Keys(g.XIDs)) {
				a.Rows = append(a.Rows, []any{g.Hour, g.Node, code, g.XIDs[code]})
			}
		}
		sum.Losses += s.Losses
		sum.RemappedCorrectable += s.RemappedCorrectable
		sum.RemappedUncorrectable += s.RemappedUncorrectable
	}
	if sum.Losses+sum.RemappedCorrectable+sum.RemappedUncorrectable > 0 {
		a.Notices = append(a.Notices, fmt.Sprintf("The driver %s. Memory rows remapped: %d for correctable, %d for uncorrectable errors.",
			lostTimes(sum.Losses), sum.RemappedCorrectable, sum.RemappedUncorrectable))
	}
	return a
}

func lostTimes(n int64) string {
	switch n {
	case 0:
		return "never lost the board"
	case 1:
		return "lost the board once"
	}
	return fmt.Sprintf("lost the board %d times", n)
}
