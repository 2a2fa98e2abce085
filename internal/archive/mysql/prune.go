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

// Prune deletes the rows and the events of the hours before a moment, the start of a month. It keeps their
// sums and their rows of the manifest. Each month of a cluster is a transaction. Prune calls done for each
// table of a month. A dry run only calls done.
func (d *Database) Prune(ctx context.Context, before time.Time, dry bool, done func(table.Deleted)) error {
	found, err := d.prunable(ctx, before)
	if err != nil {
		return err
	}
	for _, m := range table.ByMonth(found) {
		if !dry {
			if err := d.pruneMonth(ctx, m); err != nil {
				return fmt.Errorf("cluster %s, month %s: %w", m.Cluster, m.Month.Format("2006-01"), err)
			}
		}
		for _, of := range found[m] {
			done(of)
		}
	}
	return nil
}

// prunable returns the rows to prune by month of a cluster. Of the manifest it returns the
// unpruned rows.
func (d *Database) prunable(ctx context.Context, before time.Time) (map[table.ClusterMonth][]table.Deleted, error) {
	found := make(map[table.ClusterMonth][]table.Deleted)
	for _, t := range append(slices.Clone(table.Deletable), table.Hours) {
		where := "hour < ?"
		if t.Name == table.Hours.Name {
			where += " and state <> '" + string(table.Pruned) + "'"
		}
		err := each(ctx, d.db, "select cluster, count(*), min(hour), max(hour) from "+t.Name+" where "+where+" group by cluster, year(hour), month(hour)", []any{before}, func(rows *sql.Rows) error {
			of := table.Deleted{Table: t.Name}
			if err := rows.Scan(&of.Cluster, &of.Rows, &of.First, &of.Last); err != nil {
				return err
			}
			m := table.ClusterMonth{Cluster: of.Cluster, Month: table.Month(of.First)}
			found[m] = append(found[m], of)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	return found, nil
}

// queryer is a database or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, text string, values ...any) (*sql.Rows, error)
}

// each calls a function for each row of a query.
func each(ctx context.Context, q queryer, text string, values []any, do func(*sql.Rows) error) error {
	rows, err := q.QueryContext(ctx, text, values...)
	if err != nil {
		return err
	}
	for rows.Next() {
		if err := do(rows); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	return rows.Err()
}

// pruneMonth prunes a month of a cluster. Programs that file its hours wait for the rows of the manifest.
func (d *Database) pruneMonth(ctx context.Context, m table.ClusterMonth) error {
	tx, err := d.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	of := []any{m.Cluster, m.Month, m.Month.AddDate(0, 1, 0)}
	const where = " where cluster = ? and hour >= ? and hour < ?"
	const unpruned = where + " and state <> '" + string(table.Pruned) + "'"
	var filed [][]any
	err = each(ctx, tx, "select "+strings.Join(table.Hours.Names(), ", ")+" from hours"+unpruned+" for update", of, func(rows *sql.Rows) error {
		row, err := scan(rows, table.Hours)
		if err == nil {
			table.SetPruned(row)
			filed = append(filed, row)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := addMonthly(ctx, tx, m, where, of, filed); err != nil {
		return fmt.Errorf("sums: %w", err)
	}
	for _, row := range filed {
		if _, err := tx.ExecContext(ctx, "delete from hours where cluster = ? and hour = ?", m.Cluster, row[hourColumn]); err != nil {
			return err
		}
	}
	for rows := range slices.Chunk(filed, batch) {
		text, values := insert(table.Hours, 0, rows)
		if _, err := tx.ExecContext(ctx, text, values...); err != nil {
			return err
		}
	}
	for _, t := range table.Deletable {
		text := "delete from " + t.Name + where
		if !t.IsAppended() {
			// Hours that were filed in the meantime are kept.
			text += " and not exists (select 1 from hours as h where h.cluster = " + t.Name + ".cluster and h.hour = " + t.Name + ".hour and h.state <> '" + string(table.Pruned) + "')"
		}
		if _, err := tx.ExecContext(ctx, text, of...); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	return tx.Commit()
}

// addMonthly adds the sums of the charges and corrections of filed hours of a month.
func addMonthly(ctx context.Context, tx *sql.Tx, m table.ClusterMonth, where string, of []any, filed [][]any) error {
	charged := make(map[int64]int64)
	err := each(ctx, tx, "select hour, count(*) from charges"+where+" group by hour", of, func(rows *sql.Rows) error {
		var hour time.Time
		var n int64
		err := rows.Scan(&hour, &n)
		charged[hour.Unix()] = n
		return err
	})
	if err != nil {
		return err
	}
	var hours []time.Time
	for _, row := range filed {
		if hour := row[hourColumn].(time.Time); !table.Unsummed(row, charged[hour.Unix()]) {
			hours = append(hours, hour)
		}
	}
	if len(hours) == 0 {
		return nil
	}
	values := append([]any{m.Month, table.HoursText(m.Month, hours)}, of...)
	values = append(values, m.Cluster)
	for _, hour := range hours {
		values = append(values, hour)
	}
	_, err = tx.ExecContext(ctx, "insert into monthly_charges ("+strings.Join(table.MonthlyCharges.Names(), ", ")+`)
select cluster, ?, ?, coalesce(model, ''), namespace, workload_kind, workload_name, team, reason,
  sum(energy_mj), sum(exclusive_mj), sum(idle_mj), sum(held_ms), sum(gpu_ms), sum(active_ms), manager, unit, username,
  sum(estimated_mj), sum(busy_ms)
from billed
left join (select uuid, max(model) as model from gpu_hours`+where+` group by uuid) as models using (uuid)
where cluster = ? and hour in (?`+strings.Repeat(", ?", len(hours)-1)+`)
group by cluster, model, namespace, workload_kind, workload_name, team, reason, manager, unit, username`, values...)
	return err
}
