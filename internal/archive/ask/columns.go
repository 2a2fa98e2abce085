package ask

import (
	"slices"

	"github.com/gpuledger/gpuledger/internal/archive/print"
)

type column[R any] struct {
	name  string // name in JSON and CSV
	title string // heading in text; empty if text omits the column
	kind  print.Kind
	value func(R) any
}

type columns[R any] []column[R]

func (c columns[R]) answer(rows ...R) (a print.Answer) {
	for _, column := range c {
		a.Columns = append(a.Columns, print.Column{Name: column.name, Title: column.title, Kind: column.kind})
	}
	for _, r := range rows {
		a.Rows = append(a.Rows, c.row(r))
	}
	return a
}

func (c columns[R]) row(r R) []any {
	row := make([]any, len(c))
	for i, column := range c {
		row[i] = column.value(r)
	}
	return row
}

func (c columns[R]) contains(name string) bool {
	return slices.ContainsFunc(c, func(column column[R]) bool { return column.name == name })
}

// within converts columns of Part to columns of R. A row of type R contains a value of type Part.
func within[R, Part any](c columns[Part], part func(R) Part) (all columns[R]) {
	for _, of := range c {
		all = append(all, column[R]{of.name, of.title, of.kind, func(r R) any { return of.value(part(r)) }})
	}
	return all
}
