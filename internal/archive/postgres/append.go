package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// hourColumn is the column with the hour in every table.
const hourColumn = 1

// arrays are the types of a column in many rows.
var arrays = map[table.Type]string{table.Text: "text[]", table.Int: "bigint[]", table.Time: "timestamptz[]"}

// Append adds rows to one of [table.Appended], except those whose key is there already.
func (d *Database) Append(ctx context.Context, t table.Table, rows [][]any) error {
	var months []time.Time
	for _, row := range rows {
		months = append(months, table.Month(row[hourColumn].(time.Time)))
	}
	if err := d.createPartitions(ctx, months, t); err != nil {
		return err
	}
	parameters := make([]string, len(t.Columns))
	columns := make([]any, len(t.Columns))
	rows = values(rows)
	for i, c := range t.Columns {
		parameters[i] = fmt.Sprintf("$%d::%s", i+1, arrays[c.Type])
		columns[i] = column(c.Type, rows, i)
	}
	// Programs that add the same keys in different orders could wait for each other without end.
	_, err := d.conn.Exec(ctx, fmt.Sprintf("insert into %s.%s (%s) select * from unnest(%s) as added (%[3]s) order by %[5]s on conflict do nothing",
		schemaName, t.Name, strings.Join(t.Names(), ", "), strings.Join(parameters, ", "), strings.Join(t.Key, ", ")), columns...)
	if err != nil {
		return fmt.Errorf("table %s.%s: %w", schemaName, t.Name, rejected(err))
	}
	return nil
}

// column returns the values of a column as an array.
func column(as table.Type, rows [][]any, i int) any {
	switch as {
	case table.Int:
		return collect[int64](rows, i)
	case table.Time:
		return collect[time.Time](rows, i)
	}
	return collect[string](rows, i)
}

// collect returns the values of a column, nil for null.
func collect[T any](rows [][]any, column int) []*T {
	all := make([]*T, len(rows))
	for i, row := range rows {
		if value, ok := row[column].(T); ok {
			all[i] = &value
		}
	}
	return all
}
