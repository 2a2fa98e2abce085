package ask

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/print"
)

// previous selects the period before a statement: the previous month for a statement of a month,
// else the same number of hours.
func (q *question) previous(of books.Query) books.Query {
	from := of.From.Add(-of.Until.Sub(of.From))
	if q.ofMonth() {
		from = of.From.AddDate(0, -1, 0)
	}
	return books.Query{From: from, Until: of.From, Where: of.Where}
}

// compared is an amount of a statement, an int64 or a float64.
type compared struct {
	column print.Column
	value  func(*line) any
}

// comparedAmounts are the amounts of a comparison.
func (q *question) comparedAmounts() []compared {
	all := []compared{
		{print.Column{Name: "energy_mj", Title: "KWH", Kind: print.Energy}, func(l *line) any { return l.Energy }},
		{print.Column{Name: "gpu_ms", Title: "GPU HOURS", Kind: print.Span}, func(l *line) any { return l.GPUTime }},
	}
	if q.factors.Money() {
		all = append(all, compared{q.costColumn("cost"), func(l *line) any { return rounded(l.cost) }})
	}
	return all
}

// compare answers with a statement and the statement of the previous period.
func (q *question) compare(ctx context.Context) (print.Answer, error) {
	if q.Format != "" {
		return print.Answer{}, Invalid(errors.New("--compare supports no other format: leave out --format"))
	}
	now, err := q.account(ctx, q.By)
	if err != nil {
		return print.Answer{}, err
	}
	old, err := q.accountOf(ctx, q.By, q.previous(now.of))
	missing := new(noHoursError)
	switch {
	case errors.As(err, &missing):
		old = newAccount(now.by, q.previous(now.of))
		old.notice("%s", err.Error())
	case err != nil:
		return print.Answer{}, err
	}
	a := print.Answer{Notices: append(now.notices, fmt.Sprintf("compared with %s to %s", stamp(old.of.From), stamp(old.of.Until)))}
	for _, notice := range old.notices {
		a.Notices = append(a.Notices, "before: "+notice)
	}
	amounts := q.comparedAmounts()
	a.Columns = slices.Clone(q.statementColumns(now)[:1+len(now.by)])
	for _, amount := range amounts {
		before := amount.column
		before.Name, before.Title = "previous_"+before.Name, "BEFORE"
		change := print.Column{Name: strings.TrimSuffix(strings.TrimSuffix(amount.column.Name, "_mj"), "_ms") + "_change", Title: "CHANGE", Kind: print.Change}
		a.Columns = append(a.Columns, amount.column, before, change)
	}
	a.Columns = append(a.Columns, print.Column{Name: "complete", Kind: print.Flag})
	for _, pair := range pairs(now, old) {
		of := pair[0]
		if of == nil {
			of = pair[1]
		}
		row := q.statementRow(now, of)[:1+len(now.by)]
		for _, amount := range amounts {
			row = append(row, amount.of(pair[0]), amount.of(pair[1]), amount.change(pair[0], pair[1]))
		}
		a.Rows = append(a.Rows, append(row, !now.incomplete && !old.incomplete))
	}
	return a, nil
}

// of returns the amount of a line, or nil if there is no line.
func (c compared) of(l *line) any {
	if l == nil {
		return nil
	}
	return c.value(l)
}

// number returns the amount of a line as a number, or 0 if there is no line.
func (c compared) number(l *line) float64 {
	switch n := c.of(l).(type) {
	case int64:
		return float64(n)
	case float64:
		return n
	}
	return 0
}

// change returns the change of an amount as a share of the previous amount, or nil if there was no
// amount.
func (c compared) change(now, before *line) any {
	previous := c.number(before)
	if previous == 0 {
		return nil
	}
	return rounded(c.number(now)/previous - 1)
}

// pairs returns the lines of two statements: groups by their values, the rest and the total. A missing line is nil.
func pairs(now, old *account) (all [][2]*line) {
	both := maps.Clone(old.known)
	maps.Copy(both, now.known)
	for _, key := range slices.SortedFunc(maps.Keys(both), func(x, y string) int {
		return slices.Compare(both[x].values(now.by), both[y].values(now.by))
	}) {
		all = append(all, [2]*line{now.known[key], old.known[key]})
	}
	withOthers := now.others.Energy != 0 || old.others.Energy != 0
	before := old.ends(withOthers)
	for i, l := range now.ends(withOthers) {
		all = append(all, [2]*line{l, before[i]})
	}
	return all
}
