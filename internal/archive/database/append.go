package database

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// These are indexes of columns in the tables [table.Appended]. The key consists of the cluster, the hour and the id.
const (
	hourColumn = 1
	idColumn   = 3
)

// Append adds rows to one of the tables [table.Appended]. It skips rows whose keys are already in the table.
func (d *Database) Append(ctx context.Context, of table.Table, rows [][]any) error {
	var months []time.Time
	for _, row := range rows {
		months = append(months, table.Month(row[hourColumn].(time.Time)))
	}
	if err := d.createPartitions(ctx, months, of); err != nil {
		return err
	}
	// Without this order, two programs that add the same keys could deadlock.
	slices.SortFunc(rows, func(a, b []any) int {
		return cmp.Or(a[hourColumn].(time.Time).Compare(b[hourColumn].(time.Time)), cmp.Compare(a[idColumn].(string), b[idColumn].(string)))
	})
	return d.transaction(ctx, func(t *transaction) error {
		if err := t.insertWith(ctx, d.dialect.skip, of, rows); err != nil {
			return fmt.Errorf("table %s%s: %w", d.dialect.schema, of.Name, err)
		}
		return nil
	})
}
