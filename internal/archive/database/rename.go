package database

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// RenameCluster changes the name of a cluster in all its rows, and returns the number of renamed hours. Each day has
// its own transaction. After a failure, the caller can repeat the call.
func (d *Database) RenameCluster(ctx context.Context, from, to string) (n int, err error) {
	both, err := d.value(ctx, SQL("select min(a.hour) from {hours} as a join {hours} as b on b.hour = a.hour where a.cluster = ? and b.cluster = ?", from, to), table.Time)
	if err != nil {
		return 0, err
	}
	if both != (table.Cell{}) {
		return 0, &table.OverlapError{Cluster: to, Hour: both.Time()}
	}
	filed, err := d.rows(ctx, table.Hours, SQL(" where cluster = ? order by hour", from))
	if err != nil {
		return 0, err
	}
	begin := func(t *transaction) error { return t.link(ctx, from) }
	if err := d.transaction(ctx, begin); err != nil {
		return 0, err
	}
	for hours := hoursIn(filed); len(hours) > 0; {
		day := table.Day(hours[0])
		end := slices.IndexFunc(hours, func(hour time.Time) bool { return !table.Day(hour).Equal(day) })
		if end < 0 {
			end = len(hours)
		}
		rename := func(t *transaction) error { return t.renameDay(ctx, from, to, hours[:end]) }
		if err := d.transaction(ctx, rename, lock{from, day}, lock{to, day}); err != nil {
			return n, fmt.Errorf("day %s: %w", day.Format(time.DateOnly), err)
		}
		n, hours = n+end, hours[end:]
	}
	// The last transaction renames the monthly sums, and the events of hours without other rows.
	return n, d.transaction(ctx, func(t *transaction) error {
		if err := t.renameRows(ctx, table.Appended, to, SQL(" where cluster = ?", from)); err != nil {
			return err
		}
		return t.renameSums(ctx, from, to)
	})
}

// renameSums renames the monthly sums, and records this in the chains of both names.
func (t *transaction) renameSums(ctx context.Context, from, to string) error {
	entries, err := t.entries(ctx, from, SQL(" and kind = ?", string(table.SumsEntry)))
	if err != nil {
		return err
	}
	_, sums := chain.Last(entries)
	before := make(map[int64][][]any)
	for at, e := range sums {
		if before[at], err = t.between(ctx, table.MonthlyCharges, from, e.Hour, e.Hour.AddDate(0, 1, 0)); err != nil {
			return err
		}
	}
	if err := t.renameRows(ctx, []table.Table{table.MonthlyCharges}, to, SQL(" where cluster = ?", from)); err != nil {
		return err
	}
	var old, renamed []table.Entry
	for _, at := range slices.Sorted(maps.Keys(sums)) {
		if len(before[at]) == 0 && sums[at].Rows == table.SumsDigest(nil) {
			continue // an earlier call renamed these rows
		}
		after, err := chain.ReadSums(to, sums[at].Hour, chained{ctx, t.session, to})
		if err != nil {
			return err
		}
		x, y := chain.MovedSums(sums[at], before[at], after)
		old, renamed = append(old, x), append(renamed, y)
	}
	return t.linkBoth(ctx, from, to, old, renamed)
}

func (t *transaction) linkBoth(ctx context.Context, from, to string, old, renamed []table.Entry) error {
	if len(old) == 0 {
		return nil
	}
	if err := t.link(ctx, from, old...); err != nil {
		return err
	}
	return t.link(ctx, to, renamed...)
}

// renameDay locks the day, so programs that write these hours wait for it.
func (t *transaction) renameDay(ctx context.Context, from, to string, hours []time.Time) error {
	day := table.Day(hours[0])
	entries, err := t.entries(ctx, from, SQL(" and hour >= ? and hour < ?", day, day.AddDate(0, 0, 1)))
	if err != nil {
		return err
	}
	last, _ := chain.Last(entries)
	var old, renamed []table.Entry
	for _, hour := range hours {
		moves, err := t.renameHour(ctx, from, to, last[hour.Unix()], hour)
		if err != nil {
			return fmt.Errorf("hour %s: %w", hour.Format(time.RFC3339), err)
		}
		for _, m := range moves {
			x, y := m.Entries()
			old, renamed = append(old, x), append(renamed, y)
		}
	}
	for _, cluster := range []string{from, to} {
		if err := t.sumDays(ctx, cluster, day, day.AddDate(0, 0, 1)); err != nil {
			return err
		}
	}
	return t.linkBoth(ctx, from, to, old, renamed)
}

// last is the last entry of the hour in the chain.
func (t *transaction) renameHour(ctx context.Context, from, to string, last table.Entry, hour time.Time) (moves []chain.Move, err error) {
	data := make(map[string][][]any)
	for _, of := range append(slices.Clone(table.Chained), table.Hours) {
		if data[of.Name], err = t.rows(ctx, of, anHour(from, hour)); err != nil {
			return nil, err
		}
	}
	if err := t.renameRows(ctx, table.Deletable, to, anHour(from, hour)); err != nil {
		return nil, err
	}
	if err := t.exec(ctx, SQL("delete from {hours}").Join(anHour(from, hour))); err != nil {
		return nil, err
	}
	rows := func(of table.Table) [][]any { return data[of.Name] }
	var filed [][]any
	for _, row := range data[table.Hours.Name] {
		filed = append(filed, table.RenamedHour(row, to, rows))
		moves = append(moves, chain.Move{Last: last, Filed: row, Renamed: filed[len(filed)-1], Rows: rows})
	}
	return moves, t.insert(ctx, table.Hours, filed)
}

// renameRows inserts new rows and deletes the old rows, because the role may lack the update privilege. If both
// clusters contain an event with the same key, it keeps one of the events.
func (t *transaction) renameRows(ctx context.Context, tables []table.Table, to string, where *Statement) error {
	for _, of := range tables {
		with := insertion{into: "insert into"}
		if of.IsAppended() {
			with = t.dialect.skip
		}
		columns := strings.Join(t.dialect.columnNames(of)[1:], ", ")
		renamed := SQL(with.into+" {"+of.Name+"} (cluster, "+columns+") select ?, "+columns+" from {"+of.Name+"}", to).Join(where).Add(with.end)
		for _, text := range []*Statement{renamed, SQL("delete from {" + of.Name + "}").Join(where)} {
			if err := t.exec(ctx, text); err != nil {
				return fmt.Errorf("table %s: %w", of.Name, err)
			}
		}
	}
	return nil
}
