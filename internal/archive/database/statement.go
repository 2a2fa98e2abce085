package database

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Statement is an SQL statement or a part of one. In its text, {name} stands for a table. A ? stands for a value or a
// list of values.
type Statement struct {
	text   strings.Builder
	values []any
}

// SQL returns a statement with the given text and values.
func SQL(text string, values ...any) *Statement { return new(Statement).Add(text, values...) }

// Add appends text with its values to the statement.
func (s *Statement) Add(text string, values ...any) *Statement {
	for _, value := range values {
		before, after, _ := strings.Cut(text, "?")
		all := list(value)
		s.text.WriteString(before + cmp.Or(parameters(len(all)), "null")) // a comparison with null is never true
		s.values, text = append(s.values, all...), after
	}
	s.text.WriteString(text)
	return s
}

// Join appends another statement to the statement.
func (s *Statement) Join(other *Statement) *Statement {
	s.text.WriteString(other.text.String())
	s.values = append(s.values, other.values...)
	return s
}

func list(value any) (all []any) {
	switch of := value.(type) {
	case []string:
		for _, v := range of {
			all = append(all, v)
		}
	case []time.Time:
		for _, v := range of {
			all = append(all, v)
		}
	default:
		all = []any{value}
	}
	return all
}

func parameters(n int) string { return strings.Join(slices.Repeat([]string{"?"}, n), ", ") }

func (d *Dialect) text(s *Statement) string {
	parts := strings.Split(strings.NewReplacer("{", d.schema, "}", "").Replace(s.text.String()), "?")
	var b strings.Builder
	b.WriteString(parts[0])
	for i, part := range parts[1:] {
		b.WriteString(d.parameter(i+1) + part)
	}
	return b.String()
}

// values converts values for the driver. Unknown times become null.
func (d *Dialect) values(values []any) []any {
	all := make([]any, len(values))
	for i, value := range values {
		if at, ok := value.(time.Time); !ok || !at.IsZero() {
			all[i] = d.value(value)
		}
	}
	return all
}

func (d *Dialect) columnNames(of table.Table) []string {
	if d.isNumbered(of) {
		return append(of.Names(), "n")
	}
	return of.Names()
}

// isNumbered reports whether the primary key of a table contains a row number. A table with a short key needs no row
// number.
func (d *Dialect) isNumbered(of table.Table) bool {
	return d.numbered && of.Name != table.Hours.Name && of.Name != table.MonthlyCharges.Name && of.Name != table.Chain.Name && !of.IsAppended()
}
