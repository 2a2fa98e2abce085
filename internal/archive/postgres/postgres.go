// Package postgres files the archive in a PostgreSQL database, in the schema gpuledger. The data of
// a month is in a partition of its own.
package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

const schema = "gpuledger"

// ddlLock is the advisory lock for changes of the schema.
const ddlLock = 0x6770756c // "gpul"

//go:embed views.sql
var views string

// Schema returns the statements that create the schema. They can be repeated.
func Schema() string {
	text := "create schema if not exists " + schema + ";\n\n"
	for _, t := range table.All {
		text += create(t) + "\n"
	}
	return text + views
}

var types = map[table.Type]string{table.Text: "text not null", table.Int: "bigint not null", table.Time: "timestamptz"}

func create(t table.Table) string {
	var b strings.Builder
	fmt.Fprintf(&b, "create table if not exists %s.%s (\n", schema, t.Name)
	for _, c := range t.Columns {
		fmt.Fprintf(&b, "  %s %s,\n", c.Name, types[c.Type])
	}
	fmt.Fprintf(&b, "  primary key (%s)\n)", strings.Join(t.Key, ", "))
	if partitioned(t) {
		b.WriteString(" partition by range (hour)")
	}
	return b.String() + ";\n"
}

// partitioned reports whether each month of a table has a partition. The manifest and the
// corrections are small.
func partitioned(t table.Table) bool {
	return t.Name != table.Hours.Name && t.Name != table.Corrections.Name
}

// Database is a database of the archive.
type Database struct{ conn *pgx.Conn }

// Open connects and creates the schema, unless its tables exist. The URL is that of libpq, and may
// omit values of PGPASSWORD, PGPASSFILE and other variables of libpq.
func Open(ctx context.Context, url string) (*Database, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err // it has no password
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 10 * time.Second
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	d := &Database{conn}
	if err := d.migrate(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// migrate creates the schema. A role without the right to create one can use an existing schema.
func (d *Database) migrate(ctx context.Context) error {
	var exists bool
	if err := d.conn.QueryRow(ctx, "select to_regclass($1) is not null", schema+"."+table.Hours.Name).Scan(&exists); err != nil || exists {
		return err
	}
	err := pgx.BeginFunc(ctx, d.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", ddlLock); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, Schema())
		return err
	})
	if err != nil {
		return fmt.Errorf("create the schema %s: %w: let an administrator run the output of gpuledger-archive schema", schema, err)
	}
	return nil
}

// Close closes the connection.
func (d *Database) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return d.conn.Close(ctx)
}

// Filed returns the row of an hour in the manifest, zero if the hour is not filed.
func (d *Database) Filed(ctx context.Context, cluster string, hour time.Time) (filed table.Filed, err error) {
	err = d.conn.QueryRow(ctx, "select revision, digest from "+schema+".hours where cluster = $1 and hour = $2", cluster, hour).Scan(&filed.Revision, &filed.Digest)
	if errors.Is(err, pgx.ErrNoRows) {
		return table.Filed{}, nil
	}
	return filed, err
}

// Replace files an hour.
func (d *Database) Replace(ctx context.Context, h *table.Hour) error {
	return d.file(ctx, h, table.Data)
}

// Correct files the corrections of an hour beside earlier ones, and its row in the manifest.
func (d *Database) Correct(ctx context.Context, h *table.Hour) error {
	return d.file(ctx, h, []table.Table{table.Corrections})
}

// Charges returns the filed charges of an hour, and its corrections.
func (d *Database) Charges(ctx context.Context, cluster string, hour time.Time) (charges []fold.Charge, err error) {
	for _, t := range []table.Table{table.Charges, table.Corrections} {
		rows, err := d.conn.Query(ctx, "select "+strings.Join(columns(t), ", ")+" from "+schema+"."+t.Name+" where cluster = $1 and hour = $2", cluster, hour)
		if err != nil {
			return nil, err
		}
		found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (fold.Charge, error) {
			values, err := row.Values()
			if err != nil {
				return fold.Charge{}, err
			}
			return table.ChargeIn(t, values), nil
		})
		if err != nil {
			return nil, err
		}
		charges = append(charges, found...)
	}
	return charges, nil
}

// file replaces the rows of an hour in some tables and in the manifest, in one transaction. Rows of
// corrections have a revision, so earlier ones are kept. Programs that file the same hour
// wait for each other.
func (d *Database) file(ctx context.Context, h *table.Hour, tables []table.Table) error {
	if err := d.partition(ctx, h.Start); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, d.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock(hashtextextended($1, $2))", h.Cluster, h.Start.Unix()); err != nil {
			return err
		}
		for _, t := range append(slices.Clone(tables), table.Hours) {
			if t.Name != table.Corrections.Name {
				if _, err := tx.Exec(ctx, "delete from "+schema+"."+t.Name+" where cluster = $1 and hour = $2", h.Cluster, h.Start); err != nil {
					return err
				}
			}
			if _, err := tx.CopyFrom(ctx, pgx.Identifier{schema, t.Name}, columns(t), pgx.CopyFromRows(values(t.Rows(h)))); err != nil {
				return fmt.Errorf("table %s.%s: %w", schema, t.Name, err)
			}
		}
		return nil
	})
}

// partition creates the partitions of a month.
func (d *Database) partition(ctx context.Context, hour time.Time) error {
	month := time.Date(hour.Year(), hour.Month(), 1, 0, 0, 0, 0, time.UTC)
	for _, t := range slices.DeleteFunc(slices.Clone(table.All), func(t table.Table) bool { return !partitioned(t) }) {
		name := schema + "." + t.Name + month.Format("_2006_01")
		var exists bool
		if err := d.conn.QueryRow(ctx, "select to_regclass($1) is not null", name).Scan(&exists); err != nil {
			return err
		}
		if exists {
			continue
		}
		err := pgx.BeginFunc(ctx, d.conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", ddlLock); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, fmt.Sprintf("create table if not exists %s partition of %s.%s for values from ('%s') to ('%s')",
				name, schema, t.Name, month.Format(time.RFC3339), month.AddDate(0, 1, 0).Format(time.RFC3339)))
			return err
		})
		if err != nil {
			return fmt.Errorf("create the partition %s: %w", name, err)
		}
	}
	return nil
}

func columns(t table.Table) []string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	return names
}

// values replaces values that PostgreSQL does not support: unknown times become null, and texts
// lose zero bytes.
func values(rows [][]any) [][]any {
	for _, row := range rows {
		for i, value := range row {
			switch v := value.(type) {
			case time.Time:
				if v.IsZero() {
					row[i] = nil
				}
			case string:
				row[i] = strings.ReplaceAll(v, "\x00", "")
			}
		}
	}
	return rows
}
