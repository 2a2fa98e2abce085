package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/print"
)

// previous selects the period before a statement. For a month, this is the previous month. For another period, it is a
// period of the same length.
func (q *question) previous(of books.Query) books.Query {
	from := of.From.Add(-of.Until.Sub(of.From))
	if q.ofMonth() {
		from = of.From.AddDate(0, -1, 0)
	}
	return books.Query{From: from, Until: of.From, Where: of.Where}
}

// All values must be int64 or float64, because growth accepts no other types.
func (q *question) comparedColumns() columns[*line] {
	all := columns[*line]{
		{"energy_mj", "KWH", print.Energy, func(l *line) any { return l.Energy }},
		{"gpu_ms", "GPU HOURS", print.Span, func(l *line) any { return l.GPUTime }},
	}
	if q.factors.Money() {
		all = append(all, q.costColumn("cost", func(l *line) float64 { return l.cost }))
	}
	return all
}

func (q *question) compare(ctx context.Context) (print.Answer, error) {
	if q.Format != "" {
		return print.Answer{}, Invalid(errors.New("--compare and --format cannot be used together: leave out --format"))
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
	all := within(lineColumns(now.by), linePair.either)
	for _, c := range q.comparedColumns() {
		change := strings.TrimSuffix(strings.TrimSuffix(c.name, "_mj"), "_ms") + "_change"
		all = append(all,
			column[linePair]{c.name, c.title, c.kind, func(p linePair) any { return p.now.in(c) }},
			column[linePair]{"previous_" + c.name, "BEFORE", c.kind, func(p linePair) any { return p.before.in(c) }},
			column[linePair]{change, "CHANGE", print.Change, func(p linePair) any { return growth(p.now.in(c), p.before.in(c)) }})
	}
	a := append(all, completeColumn[linePair](!now.incomplete && !old.incomplete)).answer(pairs(now, old)...)
	a.Notices = append(now.notices, fmt.Sprintf("compared with %s to %s", stamp(old.of.From), stamp(old.of.Until)))
	for _, notice := range old.notices {
		a.Notices = append(a.Notices, "before: "+notice)
	}
	return a, nil
}

// linePair contains the lines of the same group in two statements. A line is nil if its statement does not contain the
// group.
type linePair struct{ now, before *line }

func (p linePair) either() *line { return cmp.Or(p.now, p.before) }

// The result is nil if there is no line.
func (l *line) in(c column[*line]) any {
	if l == nil {
		return nil
	}
	return c.value(l)
}

// growth returns the change as a share of the previous value, or nil if the previous value is 0 or unknown.
func growth(now, before any) any {
	previous := asNumber(before)
	if previous == 0 {
		return nil
	}
	return rounded(asNumber(now)/previous - 1)
}

func asNumber(amount any) float64 {
	switch n := amount.(type) {
	case int64:
		return float64(n)
	case float64:
		return n
	}
	return 0
}

// pairs returns a pair for each group of the two statements. After the groups, it returns a pair for each of the last
// lines, such as the total.
func pairs(now, old *account) (all []linePair) {
	both := maps.Clone(old.known)
	maps.Copy(both, now.known)
	for _, key := range slices.SortedFunc(maps.Keys(both), func(x, y string) int {
		return slices.Compare(both[x].values(now.by), both[y].values(now.by))
	}) {
		all = append(all, linePair{now.known[key], old.known[key]})
	}
	withOthers := now.others.Energy != 0 || old.others.Energy != 0
	before := old.ends(withOthers)
	for i, l := range now.ends(withOthers) {
		all = append(all, linePair{l, before[i]})
	}
	return all
}
