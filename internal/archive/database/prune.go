package database

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Prune deletes the rows and the events before a time, which must be the start of a month. It adds the deleted charges
// to the monthly sums. It keeps the rows of the manifest. Each month of a cluster has its own transaction. Prune calls
// the function done with the deleted rows of each table and month. A dry run only calls this function.
func (d *Database) Prune(ctx context.Context, before time.Time, dry bool, done func(table.Deleted)) error {
	found, err := d.prunable(ctx, before)
	if err != nil {
		return err
	}
	for _, m := range table.ByMonth(found) {
		if !dry {
			prune := func(t *transaction) error { return t.prune(ctx, m) }
			if err := d.transaction(ctx, prune, locksOf(m)...); err != nil {
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
	return d.dropPartitions(ctx, before)
}

// prunable counts the rows that can be pruned, by cluster and month. In the manifest, it counts only hours that are not
// yet pruned.
func (d *Database) prunable(ctx context.Context, before time.Time) (map[table.ClusterMonth][]table.Deleted, error) {
	found := make(map[table.ClusterMonth][]table.Deleted)
	for _, t := range append(slices.Clone(table.Deletable), table.Hours) {
		text := SQL("select cluster, hour, count(*) from {"+t.Name+"} where hour < ?", before)
		if t.Name == table.Hours.Name {
			text.Add(" and state <> ?", string(table.Pruned))
		}
		months := make(map[table.ClusterMonth]table.Deleted)
		err := d.Rows(ctx, text.Add(" group by cluster, hour"), []table.Type{table.Text, table.Time, table.Int}, func(row []table.Cell) bool {
			cluster, hour := row[0].Text, row[1].Time()
			m := table.ClusterMonth{Cluster: cluster, Month: table.Month(hour)}
			deleted := months[m]
			deleted.Add(table.Deleted{Rows: row[2].Int, First: hour, Last: hour})
			months[m] = deleted
			return true
		})
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
		for m, deleted := range months {
			deleted.Table, deleted.Cluster = t.Name, m.Cluster
			found[m] = append(found[m], deleted)
		}
	}
	return found, nil
}

func in(m table.ClusterMonth) *Statement {
	return SQL(" where cluster = ? and hour >= ? and hour < ?", m.Cluster, m.Month, m.Month.AddDate(0, 1, 0))
}

func locksOf(m table.ClusterMonth) (all []lock) {
	for day := m.Month; day.Before(m.Month.AddDate(0, 1, 0)); day = day.AddDate(0, 0, 1) {
		all = append(all, lock{m.Cluster, day})
	}
	return all
}

// Programs that write rows of this month wait until prune has ended.
func (t *transaction) prune(ctx context.Context, m table.ClusterMonth) error {
	filed, err := t.unpruned(ctx, m)
	if err != nil {
		return err
	}
	if err := t.addMonthly(ctx, m, filed); err != nil {
		return fmt.Errorf("sums: %w", err)
	}
	if err := t.exec(ctx, SQL("delete from {hours} where cluster = ? and hour in (?)", m.Cluster, hoursIn(filed))); err != nil {
		return err
	}
	if err := t.insert(ctx, table.Hours, filed); err != nil {
		return err
	}
	for _, of := range table.Deletable {
		if err := t.exec(ctx, SQL("delete from {"+of.Name+"}").Join(in(m))); err != nil {
			return fmt.Errorf("table %s: %w", of.Name, err)
		}
	}
	if err := t.sumDays(ctx, m.Cluster, m.Month, m.Month.AddDate(0, 1, 0)); err != nil || len(filed) == 0 {
		return err
	}
	sums, err := chain.ReadSums(m.Cluster, m.Month, chained{ctx, t.session, m.Cluster})
	if err != nil {
		return err
	}
	return t.link(ctx, m.Cluster, sums)
}

// unpruned returns the rows of the manifest that are not yet pruned. In the result, their state is already pruned.
func (t *transaction) unpruned(ctx context.Context, m table.ClusterMonth) ([][]any, error) {
	filed, err := t.rows(ctx, table.Hours, in(m).Add(" and state <> ?", string(table.Pruned)))
	for _, row := range filed {
		table.SetPruned(row)
	}
	return filed, err
}

func hoursIn(filed [][]any) (hours []time.Time) {
	for _, row := range filed {
		hours = append(hours, row[hourColumn].(time.Time))
	}
	return hours
}

// If an administrator has removed the charges of an hour, addMonthly omits the hour.
func (t *transaction) addMonthly(ctx context.Context, m table.ClusterMonth, filed [][]any) error {
	charged := make(map[time.Time]int64)
	text := SQL("select hour, count(*) from {charges}").Join(in(m)).Add(" group by hour")
	err := t.Rows(ctx, text, []table.Type{table.Time, table.Int}, func(row []table.Cell) bool {
		charged[row[0].Time()] = row[1].Int
		return true
	})
	if err != nil {
		return err
	}
	hours := hoursIn(slices.DeleteFunc(slices.Clone(filed), func(row []any) bool { return table.Unsummed(row, charged[row[hourColumn].(time.Time)]) }))
	if len(hours) == 0 {
		return nil
	}
	var sums, groups []string
	for _, c := range table.Summed() {
		switch c.Type {
		case table.Int:
			sums = append(sums, "sum("+c.Name+")")
		case table.OptionalInt:
			sums = append(sums, sumOfOptional(c.Name))
		default:
			sums, groups = append(sums, c.Name), append(groups, c.Name)
		}
	}
	day := t.DateOfHour()
	text = SQL("insert into {monthly_charges} ("+strings.Join(table.MonthlyCharges.Names(), ", ")+`)
select cluster, ?, ?, model, `+strings.Join(sums, ", ")+`
from (select charged.*, coalesce(hour_model, (select `+t.LastModel()+` from {gpu_hours}`, m.Month, table.HoursText(m.Month, hours)).Join(in(m)).Add(`
  and uuid = charged.uuid and `+day+` = charged.day), '') as model
from (select billed.*, `+day+` as day from {billed} as billed`).Join(in(m)).Add(`) as charged
left join (select hour, node, uuid, nullif(model, '') as hour_model from {gpu_hours}`).Join(in(m)).Add(`) as hour_models using (hour, node, uuid)) as charged
where hour in (?)
group by cluster, model, `+strings.Join(groups, ", "), hours)
	return t.exec(ctx, text)
}
