package database

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// sumHour updates the daily sums after the rows of an hour were written. Adding up a whole day costs as much as writing
// several hours. Most hours are new and are the latest hour of their day. sumHour adds the sums of such an hour as
// separate rows. It adds up the whole day again after the last hour of a day, and after a change of an hour.
func (t *transaction) sumHour(ctx context.Context, cluster string, hour time.Time, isNew bool) error {
	day := table.Day(hour)
	end := day.AddDate(0, 0, 1)
	later, err := t.value(ctx, SQL("select count(*) from {hours} where cluster = ? and hour > ? and hour < ?", cluster, hour, end), table.Int)
	if err != nil {
		return err
	}
	if isNew && later.Int == 0 && hour.Add(time.Hour).Before(end) {
		return t.addSums(ctx, anHour(cluster, hour))
	}
	return t.sumDays(ctx, cluster, day, end)
}

// sumDays replaces the sums of a cluster for the days in [from, until).
func (t *transaction) sumDays(ctx context.Context, cluster string, from, until time.Time) error {
	for _, of := range table.Summaries {
		days := SQL("delete from {"+of.Name+"} where cluster = ? and day >= ? and day < ?", cluster, from.Format(time.DateOnly), until.Format(time.DateOnly))
		if err := t.exec(ctx, days); err != nil {
			return fmt.Errorf("table %s%s: %w", t.dialect.schema, of.Name, err)
		}
	}
	return t.addSums(ctx, SQL(" where cluster = ? and hour >= ? and hour < ?", cluster, from, until))
}

// addSums adds up the hours that the statement selects.
func (t *transaction) addSums(ctx context.Context, hours *Statement) error {
	for _, of := range table.Summaries {
		if err := t.exec(ctx, t.dialect.sum(of, hours)); err != nil {
			return fmt.Errorf("table %s%s: %w", t.dialect.schema, of.Name, err)
		}
	}
	return nil
}

func (d *Dialect) sum(of table.Table, where *Statement) *Statement {
	insert := SQL("insert into {" + of.Name + "} (" + strings.Join(of.Names(), ", ") + ")\n")
	if of.Name == table.Days.Name {
		return insert.Join(d.sumCharges(where))
	}
	return insert.Join(d.sumPlaces(where))
}

func (d *Dialect) sumCharges(where *Statement) *Statement {
	texts := table.Days.Of(table.Text) // the cluster is the first key
	amounts, optional := table.Charges.Of(table.Int), table.Charges.Of(table.OptionalInt)
	keys := append([]string{"cluster", d.views("date(hour)")}, texts[1:]...)
	// The columns that differ most come first. A database that sorts rows compares the first columns most often.
	group := append([]string{"uuid", "pod_uid", "reason"}, slices.DeleteFunc(slices.Clone(keys), func(name string) bool { return name == "uuid" || name == "pod_uid" || name == "reason" })...)
	sums := []string{"sum(charge)", "min(hour)", "max(hour)"}
	for _, name := range amounts {
		sums = append(sums, "sum("+name+")")
	}
	sums = append(sums, "min(coalesce(began, hour))", d.views("max(coalesce(ended, hour + interval '1' hour))"))
	for _, name := range optional {
		sums = append(sums, sumOfOptional(name))
	}
	columns := strings.Join(slices.Concat(texts, amounts, optional), ", ") + ", hour, began, ended"
	return SQL("select " + strings.Join(append(keys, sums...), ", ") + " from (\n  select 1 as charge, " + columns + " from {charges}").Join(where).
		Add("\n  union all\n  select 0, " + columns + " from {corrections}").Join(where).
		Add("\n) as billed group by " + strings.Join(group, ", "))
}

// sumOfOptional returns the sum of an amount that may be unknown. As in [table.Charge.Add], a sum of 0 is unknown if
// corrections have removed all profiled time.
func sumOfOptional(name string) string {
	return "case when sum(profiled_ms) <> 0 or sum(" + name + ") <> 0 then sum(" + name + ") end"
}

// sumPlaces returns a query for rows of [table.GPUDays]. A row ends when the GPU moves to another node or slot. It also
// ends before an hour in which the GPU is missing.
func (d *Dialect) sumPlaces(where *Statement) *Statement {
	places := table.GPUDays.Of(table.Text)[1:]
	var same, values []string
	for _, name := range places {
		same = append(same, "lag("+name+") over gpu = "+name)
		if name != "uuid" {
			name = "max(" + name + ")"
		}
		values = append(values, name)
	}
	const order = "partition by cluster, uuid, scraped order by hour, first_seen, node"
	columns := "cluster, hour, scraped, " + strings.Join(places, ", ") + ", first_seen, last_seen, scrapes, energy_mj"
	changes := SQL("select " + columns + ",\n    case when lag(end_hour) over gpu >= hour and " + strings.Join(same, " and ") + " then 0 else 1 end as changed\n" +
		"  from (select " + strings.Replace(columns, "scraped", d.views("hour + interval '1' hour")+" as end_hour, case when scrapes > 0 then 1 else 0 end as scraped", 1) + " from {gpu_hours}").Join(where).
		Add(") as readings\n  window gpu as (" + order + ")")
	runs := SQL("select " + columns + ", sum(changed) over (" + order + " rows unbounded preceding) as run from (").Join(changes).Add(") as changes")
	day := d.views("date(hour)")
	return SQL("select cluster, " + day + ", " + strings.Join(values, ", ") +
		", count(*), min(hour), max(hour), min(first_seen), max(last_seen), sum(scrapes), sum(energy_mj) from (").Join(runs).
		Add("\n) as runs group by uuid, run, scraped, cluster, " + day)
}

// fill returns a script that fills the tables of daily sums if they are empty.
func (d *Dialect) fill() string {
	b := strings.Builder{}
	for _, of := range table.Summaries {
		name := d.schema + of.Name
		sum := func(where string) string { return d.text(d.sum(of, SQL(where))) }
		text := sum(" where not exists (select 1 from " + name + ")")
		if d.fillDays != nil {
			text = d.fillDays(name, sum)
		}
		fmt.Fprintf(&b, "\n-- The sums of all days, if there are none.\n%s;\n", text)
	}
	return b.String()
}

// repair adds up a day again if its daily sums differ from the sums of its hours. This happens if a version without
// daily sums wrote an hour, or if an administrator deleted an hour.
func (d *Database) repair(ctx context.Context) error {
	days := make(map[lock]bool)
	for _, compared := range []struct{ table, count, always, uncorrected string }{
		// A correction changes the number of charges and the energy in the manifest, but not the rows of charges and
		// GPUs.
		{table.Days.Name, "charges", "energy_mj", "n"},
		{table.GPUDays.Name, "gpus", "n", "energy_mj"},
	} {
		text := SQL("select cluster, day from (select cluster, "+d.dialect.views("date(hour)")+" as day, "+compared.count+" as n, energy_mj,"+
			" case when state = ? then 1 else 0 end as corrected from {hours} where state <> ?"+
			" union all select cluster, day, -hours, -energy_mj, 0 from {"+compared.table+"}) as compared group by cluster, day"+
			" having sum("+compared.always+") <> 0 or sum("+compared.uncorrected+") <> 0 and sum(corrected) = 0", string(table.Corrected), string(table.Pruned))
		err := d.Rows(ctx, text, []table.Type{table.Text, table.Date}, func(row []table.Cell) bool {
			days[lock{row[0].Text, row[1].Time()}] = true
			return true
		})
		if err != nil {
			return fmt.Errorf("compare %s with hours: %w", compared.table, err)
		}
	}
	for of := range days {
		sum := func(t *transaction) error { return t.sumDays(ctx, of.cluster, of.day, of.day.AddDate(0, 0, 1)) }
		if err := d.transaction(ctx, sum, of); err != nil {
			return fmt.Errorf("sums of %s of cluster %s: %w", of.day.Format(time.DateOnly), of.cluster, err)
		}
	}
	return nil
}
