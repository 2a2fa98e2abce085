package database

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// The large tables have a partition for each month.
var partitioned = slices.Concat(table.Data, table.Appended)

// maxNewMonths limits the months for which one call creates partitions. Events can belong to any month, but each
// partition makes the planning of queries slower. Rows of other months stay in the default partition.
const maxNewMonths = 2

type partition struct{ name, create string }

func partitions(month time.Time, tables ...table.Table) (all []partition) {
	for _, t := range tables {
		p := fmt.Sprintf("%s.%s_%s", schemaName, t.Name, month.Format("2006_01"))
		all = append(all, partition{p, createPartition(t.Name, month)})
	}
	return all
}

// createPartition returns a statement that creates a missing partition. PostgreSQL rejects a new partition if the
// default partition contains rows of this month. Therefore the statement first moves these rows. It locks the table,
// because a query that was planned earlier would not see the moved rows. It searches for the name in the catalogue,
// because a session may cache an earlier negative result of to_regclass.
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

// createPartitions creates missing partitions for the newest of the given months. A role without the right to create
// partitions leaves the rows in the default partition.
func (d *Database) createPartitions(ctx context.Context, months []time.Time, tables ...table.Table) error {
	if !d.dialect.partitioned {
		return nil
	}
	names, err := d.partitionNames(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(months, func(a, b time.Time) int { return b.Compare(a) })
	created := 0
	for _, month := range slices.Compact(months) {
		missing := slices.DeleteFunc(partitions(month, tables...), func(p partition) bool { return slices.Contains(names, p.name) })
		if len(missing) == 0 {
			continue
		}
		if may, err := d.mayCreate(ctx); err != nil || !may || created == maxNewMonths {
			return err
		}
		created++
		for _, p := range missing {
			if err := d.createOne(ctx, p); err != nil {
				return fmt.Errorf("create the partition %s: %w", p.name, err)
			}
		}
	}
	return nil
}

func (d *Database) createOne(ctx context.Context, p partition) error {
	return d.transaction(ctx, func(t *transaction) error {
		_, err := t.on.ExecContext(ctx, p.create)
		return err
	}, lock{})
}

func (d *Database) mayCreate(ctx context.Context) (bool, error) {
	if d.creates == nil {
		may, err := d.holds(ctx, "has_schema_privilege('gpuledger', 'create') and pg_has_role((select relowner from pg_class where oid = to_regclass('gpuledger.charges')), 'usage')")
		if err != nil {
			return false, err
		}
		d.creates = &may
	}
	return *d.creates, nil
}

func (s session) holds(ctx context.Context, condition string) (bool, error) {
	found, err := s.value(ctx, SQL("select case when "+condition+" then 1 else 0 end"), table.Int)
	return found.Int == 1, err
}

// PartitionsEnd returns the start of the first month without a partition, beginning with the current month. It returns
// zero if the role can create partitions, or if the dialect has no partitions.
func (d *Database) PartitionsEnd(ctx context.Context, now time.Time) (end time.Time, err error) {
	if !d.dialect.partitioned {
		return time.Time{}, nil
	}
	if may, err := d.mayCreate(ctx); err != nil || may {
		return time.Time{}, err
	}
	names, err := d.partitionNames(ctx)
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

func (d *Database) partitionNames(ctx context.Context) (names []string, err error) {
	text := SQL(`select 'gpuledger.' || relname from pg_inherits join pg_class on pg_class.oid = inhrelid
		where relnamespace = to_regnamespace('gpuledger') and relkind = 'r' order by 1`)
	err = d.Rows(ctx, text, []table.Type{table.Text}, func(row []table.Cell) bool {
		names = append(names, row[0].Text)
		return true
	})
	return names, err
}

func (d *Database) dropPartitions(ctx context.Context, before time.Time) error {
	if !d.dialect.partitioned {
		return nil
	}
	if may, err := d.mayCreate(ctx); err != nil || !may {
		return err
	}
	names, err := d.partitionNames(ctx)
	if err != nil {
		return err
	}
	for _, t := range partitioned {
		parent := schemaName + "." + t.Name
		for _, name := range names {
			month, err := time.Parse(parent+"_2006_01", name)
			if err != nil || !month.Before(before) {
				continue // the default partition has no month
			}
			if err := d.dropIfEmpty(ctx, parent, name); err != nil {
				return fmt.Errorf("drop the partition %s: %w", name, err)
			}
		}
	}
	return nil
}

// dropIfEmpty locks the table first and the partition second, as queries do.
func (d *Database) dropIfEmpty(ctx context.Context, parent, name string) error {
	used := "exists (select from " + name + ")"
	if has, err := d.holds(ctx, used); err != nil || has {
		return err
	}
	return d.transaction(ctx, func(t *transaction) error {
		if err := t.exec(ctx, SQL("lock table "+parent+" in access exclusive mode")); err != nil {
			return err
		}
		if has, err := t.holds(ctx, used); err != nil || has {
			return err
		}
		return t.exec(ctx, SQL("drop table "+name))
	}, lock{})
}
