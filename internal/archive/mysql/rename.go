package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// RenameCluster gives the rows of a cluster another name, and returns the number of its hours. Each hour is a
// transaction, so it can be repeated after a failure.
func (d *Database) RenameCluster(ctx context.Context, from, to string) (n int, err error) {
	var both sql.NullTime
	err = d.db.QueryRowContext(ctx, "select min(a.hour) from hours as a join hours as b on b.hour = a.hour where a.cluster = ? and b.cluster = ?", from, to).Scan(&both)
	if err != nil {
		return 0, err
	}
	if both.Valid {
		return 0, &table.OverlapError{Cluster: to, Hour: both.Time}
	}
	var hours []time.Time
	err = each(ctx, d.db, "select hour from hours where cluster = ? order by hour", []any{from}, func(rows *sql.Rows) error {
		var hour time.Time
		err := rows.Scan(&hour)
		hours = append(hours, hour)
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, hour := range hours {
		err := d.locked(ctx, to+" "+hour.String(), func(ctx context.Context, conn *sql.Conn) error {
			return inTransaction(ctx, conn, func(tx *sql.Tx) error { return renameHour(ctx, tx, from, to, hour) })
		})
		if err != nil {
			return n, fmt.Errorf("hour %s: %w", hour.Format(time.RFC3339), err)
		}
		n++
	}
	// The sums, and events of hours that are not filed.
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return n, err
	}
	err = inTransaction(ctx, conn, func(tx *sql.Tx) error {
		for _, t := range append(slices.Clone(table.Appended), table.MonthlyCharges) {
			if err := renameRows(ctx, tx, t, to, "cluster = ?", from); err != nil {
				return err
			}
		}
		return nil
	})
	return n, errors.Join(err, conn.Close())
}

func inTransaction(ctx context.Context, conn *sql.Conn, do func(tx *sql.Tx) error) error {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// renameHour renames the rows of an hour.
func renameHour(ctx context.Context, tx *sql.Tx, from, to string, hour time.Time) error {
	data := make(map[string][][]any)
	for _, t := range append(slices.Clone(table.Data), table.Hours) {
		err := each(ctx, tx, "select "+strings.Join(t.Names(), ", ")+" from "+t.Name+" where cluster = ? and hour = ?", []any{from, hour}, func(rows *sql.Rows) error {
			row, err := scan(rows, t)
			for i, value := range row {
				if value == nil {
					row[i] = time.Time{}
				}
			}
			data[t.Name] = append(data[t.Name], row)
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, t := range table.Deletable {
		if err := renameRows(ctx, tx, t, to, "cluster = ? and hour = ?", from, hour); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, "delete from hours where cluster = ? and hour = ?", from, hour); err != nil {
		return err
	}
	for _, row := range data[table.Hours.Name] {
		text, values := insert(table.Hours, 0, [][]any{table.RenamedHour(row, to, func(t table.Table) [][]any { return data[t.Name] })})
		if _, err := tx.ExecContext(ctx, text, values...); err != nil {
			return err
		}
	}
	return nil
}

// renameRows renames the rows of a table that meet a condition. It inserts and deletes rows, because the user may lack
// the right to update. It keeps one of two events with the same key.
func renameRows(ctx context.Context, tx *sql.Tx, t table.Table, to, where string, of ...any) error {
	names := t.Names()[1:]
	if numbered(t) {
		names = append(names, "n")
	}
	columns, ignore := strings.Join(names, ", "), ""
	if t.IsAppended() {
		ignore = "ignore "
	}
	text := "insert " + ignore + "into " + t.Name + " (cluster, " + columns + ") select ?, " + columns + " from " + t.Name + " where " + where
	if _, err := tx.ExecContext(ctx, text, append([]any{to}, of...)...); err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	if _, err := tx.ExecContext(ctx, "delete from "+t.Name+" where "+where, of...); err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	return nil
}
