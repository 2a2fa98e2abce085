package mysql

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// The columns of the key of [table.Appended] after the cluster.
const (
	hourColumn = 1
	idColumn   = 3
)

// Append adds rows to one of [table.Appended], except those whose key is there already.
func (d *Database) Append(ctx context.Context, t table.Table, rows [][]any) error {
	// Programs that add the same keys in different orders could wait for each other without end.
	slices.SortFunc(rows, func(a, b []any) int {
		return cmp.Or(a[hourColumn].(time.Time).Compare(b[hourColumn].(time.Time)), cmp.Compare(a[idColumn].(string), b[idColumn].(string)))
	})
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for rows := range slices.Chunk(rows, batch) {
		text, values := insert(t, 0, rows)
		// This also cuts texts that are too long, but events have no longer ones. "On duplicate key
		// update" would require the right to update.
		text = strings.Replace(text, "insert", "insert ignore", 1)
		if _, err := tx.ExecContext(ctx, text, values...); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, rejected(err))
		}
	}
	return tx.Commit()
}
