package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// partitioned are the tables with a partition for each month. The others are small.
var partitioned = slices.Concat(table.Data, table.Appended)

// maxNewMonths is the maximum number of months that get partitions at once. The time to plan a query grows
// with the number of partitions, and rows of events can have any month. Rows of other months are in the
// default partition.
const maxNewMonths = 2

// partition is the partition of a table for a month.
type partition struct{ name, create string }

// partitions returns the partitions of tables for a month.
func partitions(month time.Time, tables ...table.Table) (all []partition) {
	for _, t := range tables {
		p := fmt.Sprintf("%s.%s_%s", schemaName, t.Name, month.Format("2006_01"))
		all = append(all, partition{p, createPartition(t.Name, month)})
	}
	return all
}

// createPartition returns a statement that creates a partition, unless it exists. PostgreSQL rejects a
// partition while the default one has rows of its time, so they are moved. The table is locked: a query that was
// planned without the partition would not see moved rows. A session may cache that to_regclass found no
// table, so the name is read from the catalogue.
func createPartition(name string, month time.Time) string {
	return fmt.Sprintf(`do $$ begin
  if not exists (select from pg_class where relnamespace = to_regnamespace('%[1]s') and relname = '%[2]s_%[3]s') then
    lock table %[1]s.%[2]s in access exclusive mode;
    create table %[1]s.%[2]s_%[3]s (like %[1]s.%[2]s including all);
    with moved as (delete from %[1]s.%[2]s_default where hour >= '%[4]s' and hour < '%[5]s' returning *)
      insert into %[1]s.%[2]s_%[3]s select * from moved;
    alter table %[1]s.%[2]s attach partition %[1]s.%[2]s_%[3]s for values from ('%[4]s') to ('%[5]s');
  end if;
end $$`, schemaName, name, month.Format("2006_01"), month.Format(time.RFC3339), month.AddDate(0, 1, 0).Format(time.RFC3339))
}

// createPartitions creates the partitions of tables for the newest months that have none. Without the right
// to create them, rows are in the default partition.
func (d *Database) createPartitions(ctx context.Context, months []time.Time, tables ...table.Table) error {
	months = slices.Clone(months)
	slices.SortFunc(months, func(a, b time.Time) int { return b.Compare(a) })
	months = slices.Compact(months)
	var names []string
	for _, month := range months {
		for _, p := range partitions(month, tables...) {
			names = append(names, p.name)
		}
	}
	found, err := d.conn.Query(ctx, "select name from unnest($1::text[]) as name where to_regclass(name) is null", names)
	if err != nil {
		return err
	}
	missing, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil || len(missing) == 0 {
		return err
	}
	if may, err := d.mayCreate(ctx); err != nil || !may {
		return err
	}
	n := 0
	for _, month := range months {
		all := slices.DeleteFunc(partitions(month, tables...), func(p partition) bool { return !slices.Contains(missing, p.name) })
		if len(all) == 0 {
			continue
		}
		if n++; n > maxNewMonths {
			return nil
		}
		if err := d.create(ctx, all); err != nil {
			return err
		}
	}
	return nil
}

// create creates partitions, each in a transaction.
func (d *Database) create(ctx context.Context, all []partition) error {
	for _, p := range all {
		err := pgx.BeginFunc(ctx, d.conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", ddlLock); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, p.create)
			return err
		})
		if err != nil {
			return fmt.Errorf("create the partition %s: %w", p.name, err)
		}
	}
	return nil
}

// mayCreate reports whether the role can create partitions and drop them.
func (d *Database) mayCreate(ctx context.Context) (may bool, err error) {
	if d.creates != nil {
		return *d.creates, nil
	}
	err = d.conn.QueryRow(ctx, "select has_schema_privilege($1, 'create') and pg_has_role(relowner, 'usage') from pg_class where oid = to_regclass($2)",
		schemaName, schemaName+"."+table.Charges.Name).Scan(&may)
	if err == nil {
		d.creates = &may
	}
	return may, err
}

// PartitionsEnd returns the end of the consecutive months from now on that have all partitions. It is zero if the role can create partitions.
func (d *Database) PartitionsEnd(ctx context.Context, now time.Time) (end time.Time, err error) {
	if may, err := d.mayCreate(ctx); err != nil || may {
		return time.Time{}, err
	}
	names, err := d.existing(ctx)
	if err != nil {
		return time.Time{}, err
	}
	for end = table.Month(now); ; end = end.AddDate(0, 1, 0) {
		for _, p := range partitions(end, partitioned...) {
			if !slices.Contains(names, p.name) {
				return end, nil
			}
		}
	}
}

// dropEmpty drops the partitions of months before a moment that have no rows.
func (d *Database) dropEmpty(ctx context.Context, before time.Time) error {
	if may, err := d.mayCreate(ctx); err != nil || !may {
		return err
	}
	names, err := d.existing(ctx)
	if err != nil {
		return err
	}
	for _, t := range partitioned {
		parent := schemaName + "." + t.Name
		for _, name := range names {
			month, err := time.Parse(parent+"_2006_01", name)
			if err != nil || !month.Before(before) {
				continue // such as the default partition
			}
			if err := d.dropIfEmpty(ctx, parent, name); err != nil {
				return fmt.Errorf("drop the partition %s: %w", name, err)
			}
		}
	}
	return nil
}

// existing returns the names of all partitions.
func (d *Database) existing(ctx context.Context) ([]string, error) {
	found, err := d.conn.Query(ctx, `select $1 || '.' || relname from pg_inherits join pg_class on pg_class.oid = inhrelid
		where relnamespace = to_regnamespace($1) and relkind = 'r' order by 1`, schemaName)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowTo[string])
}

// dropIfEmpty drops a partition without rows. It locks the table before its partition, in the order of queries.
func (d *Database) dropIfEmpty(ctx context.Context, parent, name string) error {
	return pgx.BeginFunc(ctx, d.conn, func(tx pgx.Tx) error {
		var used bool
		if err := tx.QueryRow(ctx, "select exists (select from "+name+")").Scan(&used); err != nil || used {
			return err
		}
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", ddlLock); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "lock table "+parent+" in access exclusive mode"); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, "select exists (select from "+name+")").Scan(&used); err != nil || used {
			return err
		}
		_, err := tx.Exec(ctx, "drop table "+name)
		return err
	})
}
