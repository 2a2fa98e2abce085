package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// RenameCluster gives the rows of a cluster another name, and returns the number of its hours. Each hour is a
// transaction, so it can be repeated after a failure.
func (d *Database) RenameCluster(ctx context.Context, from, to string) (n int, err error) {
	var both *time.Time
	err = d.conn.QueryRow(ctx, "select min(hour) from "+schemaName+".hours as a where cluster = $1 and exists (select from "+schemaName+".hours as b where b.cluster = $2 and b.hour = a.hour)", from, to).Scan(&both)
	if err != nil {
		return 0, err
	}
	if both != nil {
		return 0, &table.OverlapError{Cluster: to, Hour: *both}
	}
	rows, err := d.conn.Query(ctx, "select hour from "+schemaName+".hours where cluster = $1 order by hour", from)
	if err != nil {
		return 0, err
	}
	hours, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		return 0, err
	}
	for _, hour := range hours {
		err := pgx.BeginFunc(ctx, d.conn, func(tx pgx.Tx) error { return renameHour(ctx, tx, from, to, hour.UTC()) })
		if err != nil {
			return n, fmt.Errorf("hour %s: %w", hour.UTC().Format(time.RFC3339), err)
		}
		n++
	}
	// The sums, and events of hours that are not filed.
	return n, pgx.BeginFunc(ctx, d.conn, func(tx pgx.Tx) error {
		for _, t := range append(slices.Clone(table.Appended), table.MonthlyCharges) {
			if err := renameRows(ctx, tx, t, to, "cluster = $1", from); err != nil {
				return err
			}
		}
		return nil
	})
}

// renameHour renames the rows of an hour. Programs that file it wait.
func renameHour(ctx context.Context, tx pgx.Tx, from, to string, hour time.Time) error {
	for _, cluster := range []string{from, to} {
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock(hashtextextended($1, $2))", cluster, hour.Unix()); err != nil {
			return err
		}
	}
	data := make(map[string][][]any)
	for _, t := range append(slices.Clone(table.Data), table.Hours) {
		rows, err := tx.Query(ctx, "select "+strings.Join(t.Names(), ", ")+" from "+schemaName+"."+t.Name+" where cluster = $1 and hour = $2", from, hour)
		if err != nil {
			return err
		}
		data[t.Name], err = pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]any, error) {
			values, err := row.Values()
			for i, value := range values {
				if value == nil {
					values[i] = time.Time{}
				}
			}
			return values, err
		})
		if err != nil {
			return err
		}
	}
	for _, t := range table.Deletable {
		if err := renameRows(ctx, tx, t, to, "cluster = $1 and hour = $2", from, hour); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, "delete from "+schemaName+".hours where cluster = $1 and hour = $2", from, hour); err != nil {
		return err
	}
	var filed [][]any
	for _, row := range data[table.Hours.Name] {
		filed = append(filed, table.RenamedHour(row, to, func(t table.Table) [][]any { return data[t.Name] }))
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{schemaName, table.Hours.Name}, table.Hours.Names(), pgx.CopyFromRows(values(filed)))
	return err
}

// renameRows renames the rows of a table that meet a condition. It inserts and deletes rows, because the role may lack
// the right to update. It keeps one of two events with the same key.
func renameRows(ctx context.Context, tx pgx.Tx, t table.Table, to, where string, of ...any) error {
	name, columns := schemaName+"."+t.Name, strings.Join(t.Names()[1:], ", ")
	conflict := ""
	if t.IsAppended() {
		conflict = " on conflict do nothing"
	}
	text := fmt.Sprintf("insert into %s (cluster, %s) select $%d::text, %s from %s where %s%s", name, columns, len(of)+1, columns, name, where, conflict)
	if _, err := tx.Exec(ctx, text, append(slices.Clone(of), to)...); err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	if _, err := tx.Exec(ctx, "delete from "+name+" where "+where, of...); err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	return nil
}
