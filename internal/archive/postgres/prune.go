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
			if err := pgx.BeginFunc(ctx, d.conn, func(tx pgx.Tx) error { return pruneMonth(ctx, tx, m) }); err != nil {
				return fmt.Errorf("cluster %s, month %s: %w", m.Cluster, m.Month.Format("2006-01"), err)
			}
		}
		for _, of := range found[m] {
			done(of)
		}
	}
	if dry {
		return nil
	}
	return d.dropEmpty(ctx, before)
}

// prunable returns the rows to prune by month of a cluster. Of the manifest it returns the
// unpruned rows.
func (d *Database) prunable(ctx context.Context, before time.Time) (map[table.ClusterMonth][]table.Deleted, error) {
	found := make(map[table.ClusterMonth][]table.Deleted)
	for _, t := range append(slices.Clone(table.Deletable), table.Hours) {
		where := "hour < $1"
		if t.Name == table.Hours.Name {
			where += " and state <> '" + string(table.Pruned) + "'"
		}
		rows, err := d.conn.Query(ctx, "select cluster, count(*), min(hour), max(hour) from "+schemaName+"."+t.Name+
			" where "+where+" group by cluster, date_trunc('month', hour, 'UTC')", before)
		if err != nil {
			return nil, err
		}
		of := table.Deleted{Table: t.Name}
		_, err = pgx.ForEachRow(rows, []any{&of.Cluster, &of.Rows, &of.First, &of.Last}, func() error {
			m := table.ClusterMonth{Cluster: of.Cluster, Month: table.Month(of.First)}
			found[m] = append(found[m], of)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// pruneMonth prunes a month of a cluster. Programs that file its hours wait.
func pruneMonth(ctx context.Context, tx pgx.Tx, m table.ClusterMonth) error {
	of := []any{m.Cluster, m.Month, m.Month.AddDate(0, 1, 0)}
	const where = " where cluster = $1 and hour >= $2 and hour < $3"
	filed, err := unpruned(ctx, tx, where, of)
	if err != nil {
		return err
	}
	all, summed, err := hoursIn(ctx, tx, where, of, filed)
	if err != nil {
		return err
	}
	if len(summed) > 0 {
		if err := addMonthly(ctx, tx, m, summed); err != nil {
			return fmt.Errorf("sums: %w", err)
		}
	}
	if _, err := tx.Exec(ctx, "delete from "+schemaName+".hours where cluster = $1 and hour = any($2)", m.Cluster, all); err != nil {
		return err
	}
	if _, err := tx.CopyFrom(ctx, pgx.Identifier{schemaName, table.Hours.Name}, table.Hours.Names(), pgx.CopyFromRows(filed)); err != nil {
		return err
	}
	for _, t := range table.Deletable {
		text := "delete from " + schemaName + "." + t.Name + " as d" + where
		if !t.IsAppended() {
			// Hours that were filed in the meantime are kept.
			text += " and not exists (select from " + schemaName + ".hours as h where h.cluster = d.cluster and h.hour = d.hour and h.state <> '" + string(table.Pruned) + "')"
		}
		if _, err := tx.Exec(ctx, text, of...); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	return nil
}

// unpruned returns the unpruned rows of the manifest, with the new state. It locks their hours and then reads
// the rows, so it omits hours that were filed in the meantime.
func unpruned(ctx context.Context, tx pgx.Tx, where string, of []any) ([][]any, error) {
	rows, err := tx.Query(ctx, "select hour, pg_advisory_xact_lock(hashtextextended($1, extract(epoch from hour)::bigint)) from (select hour from "+
		schemaName+".hours"+where+" order by hour) as filed", of...)
	if err != nil {
		return nil, err
	}
	var locked []time.Time
	var hour time.Time
	_, err = pgx.ForEachRow(rows, []any{&hour, nil}, func() error {
		locked = append(locked, hour)
		return nil
	})
	if err != nil {
		return nil, err
	}
	rows, err = tx.Query(ctx, "select "+strings.Join(table.Hours.Names(), ", ")+" from "+schemaName+".hours where cluster = $1 and hour = any($2) and state <> $3",
		of[0], locked, string(table.Pruned))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]any, error) {
		values, err := row.Values()
		if err == nil {
			table.SetPruned(values)
		}
		return values, err
	})
}

// hoursIn returns the hours in rows of the manifest, and the hours with charges that can be added up.
func hoursIn(ctx context.Context, tx pgx.Tx, where string, of []any, filed [][]any) (all, summed []time.Time, err error) {
	rows, err := tx.Query(ctx, "select hour, count(*) from "+schemaName+".charges"+where+" group by hour", of...)
	if err != nil {
		return nil, nil, err
	}
	charged := make(map[int64]int64)
	var hour time.Time
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&hour, &n}, func() error {
		charged[hour.Unix()] = n
		return nil
	})
	for _, row := range filed {
		hour := row[hourColumn].(time.Time).UTC()
		all = append(all, hour)
		if !table.Unsummed(row, charged[hour.Unix()]) {
			summed = append(summed, hour)
		}
	}
	return all, summed, err
}

// addMonthly adds the sums of the charges and corrections of some hours of a month.
func addMonthly(ctx context.Context, tx pgx.Tx, m table.ClusterMonth, hours []time.Time) error {
	_, err := tx.Exec(ctx, "insert into "+schemaName+".monthly_charges ("+strings.Join(table.MonthlyCharges.Names(), ", ")+`)
select cluster, $2::timestamptz, $5::text, coalesce(model, ''), namespace, workload_kind, workload_name, team, reason,
  sum(energy_mj), sum(exclusive_mj), sum(idle_mj), sum(held_ms), sum(gpu_ms), sum(active_ms), manager, unit, username,
  sum(estimated_mj), sum(busy_ms)
from `+schemaName+`.billed
left join (select uuid, max(model) as model from `+schemaName+`.gpu_hours where cluster = $1 and hour >= $2 and hour < $3 group by uuid) as models using (uuid)
where cluster = $1 and hour = any($4)
group by cluster, model, namespace, workload_kind, workload_name, team, reason, manager, unit, username`,
		m.Cluster, m.Month, m.Month.AddDate(0, 1, 0), hours, table.HoursText(m.Month, hours))
	return err
}
