// Package postgres files the archive in a PostgreSQL database, in the schema gpuledger.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuledger/gpuledger/internal/archive/address"
	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/permanent"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Database is a database of the archive.
type Database struct {
	conn    *pgx.Conn
	creates *bool // whether the role can create partitions; nil if it is not known yet
}

// Open connects, and creates or updates the schema. The URL is that of libpq, and may omit values of
// PGPASSWORD, PGPASSFILE and other variables of libpq.
func Open(ctx context.Context, url string) (*Database, error) {
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	conn, err := connect(ctx, url, config)
	if err != nil {
		return nil, err
	}
	d := &Database{conn: conn}
	if err := d.migrate(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// parse returns the configuration of the driver for a URL. Errors have no secrets: errors of the driver
// repeat the text that it cannot parse.
func parse(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err == nil {
		config.ConnectTimeout = cmp.Or(config.ConnectTimeout, 10*time.Second)
		return config, nil
	}
	const want = "must be a URL such as postgres://archive@db.example.com/gpuledger"
	u, invalid := address.Parse(url)
	if invalid != nil {
		return nil, fmt.Errorf("%s: %w", want, invalid)
	}
	var parsing *pgconn.ParseConfigError
	if cause := errors.Unwrap(err); errors.As(err, &parsing) && cause != nil {
		err = cause // without the URL
	}
	return nil, fmt.Errorf("%s: %w", want, address.Hide(u, err))
}

// connect connects. Errors have no secrets.
func connect(ctx context.Context, url string, config *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err == nil || !strings.Contains(url, "://") {
		return conn, err
	}
	u, invalid := address.Parse(url)
	if invalid != nil || strings.Contains(config.Host, "@") {
		return nil, errors.New("cannot connect, and the reason may contain the password: percent-encode the characters / ? # @ % in it")
	}
	return nil, address.Hide(u, err)
}

// Close closes the connection.
func (d *Database) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return d.conn.Close(ctx)
}

// Filed returns the row of an hour in the manifest, zero if the hour is not filed.
func (d *Database) Filed(ctx context.Context, cluster string, hour time.Time) (filed table.Filed, err error) {
	err = d.conn.QueryRow(ctx, "select revision, digest, state = $3, reason from "+schemaName+".hours where cluster = $1 and hour = $2", cluster, hour, string(table.Pruned)).
		Scan(&filed.Revision, &filed.Digest, &filed.Pruned, &filed.Reason)
	if errors.Is(err, pgx.ErrNoRows) {
		return table.Filed{}, nil
	}
	return filed, err
}

// Nodes returns the nodes with GPUs in the last hour of a cluster that is filed in a period, the end
// not included.
func (d *Database) Nodes(ctx context.Context, cluster string, from, until time.Time) ([]string, error) {
	rows, err := d.conn.Query(ctx, "select distinct node from "+schemaName+".gpu_hours where cluster = $1 and hour = (select max(hour) from "+
		schemaName+".hours where cluster = $1 and hour >= $2 and hour < $3) order by node", cluster, from, until)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Clusters returns the filed hours of each cluster that are not before a moment.
func (d *Database) Clusters(ctx context.Context, since time.Time) (map[string]table.Span, error) {
	rows, err := d.conn.Query(ctx, "select cluster, min(hour), max(hour) from "+schemaName+".hours where hour >= $1 group by cluster", since)
	if err != nil {
		return nil, err
	}
	spans := make(map[string]table.Span)
	var cluster string
	var first, last time.Time
	_, err = pgx.ForEachRow(rows, []any{&cluster, &first, &last}, func() error {
		spans[cluster] = table.Span{}.Extend(first).Extend(last)
		return nil
	})
	return spans, err
}

// Replace files an hour.
func (d *Database) Replace(ctx context.Context, h *table.Hour) error {
	return d.file(ctx, h, table.Data)
}

// Correct files the corrections of an hour beside earlier ones, and its row in the manifest.
func (d *Database) Correct(ctx context.Context, h *table.Hour) error {
	return d.file(ctx, h, []table.Table{table.Corrections})
}

// Elsewhere returns the scraped GPUs of a filed hour, except in some clusters.
func (d *Database) Elsewhere(ctx context.Context, except []string, hour time.Time) ([]table.Seen, error) {
	rows, err := d.conn.Query(ctx, "select g.cluster, g.node, g.uuid, g.serial, g.first_seen, g.last_seen from "+schemaName+".hours as h join "+schemaName+
		".gpu_hours as g on g.cluster = h.cluster and g.hour = h.hour where h.hour = $1 and h.cluster <> all($2) and g.hour = $1 and g.scrapes > 0", hour, except)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[table.Seen])
}

// Charges returns the filed charges of an hour, and its corrections.
func (d *Database) Charges(ctx context.Context, cluster string, hour time.Time) (charges []fold.Charge, err error) {
	for _, t := range []table.Table{table.Charges, table.Corrections} {
		rows, err := d.conn.Query(ctx, "select "+strings.Join(t.Names(), ", ")+" from "+schemaName+"."+t.Name+" where cluster = $1 and hour = $2", cluster, hour)
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
	if err := d.createPartitions(ctx, []time.Time{table.Month(h.Start)}, table.Data...); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, d.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock(hashtextextended($1, $2))", h.Cluster, h.Start.Unix()); err != nil {
			return err
		}
		var pruned bool
		err := tx.QueryRow(ctx, "select exists (select from "+schemaName+".hours where cluster = $1 and hour = $2 and state = $3)", h.Cluster, h.Start, string(table.Pruned)).Scan(&pruned)
		if err != nil {
			return err
		}
		if pruned {
			return table.ErrPruned
		}
		for _, t := range append(slices.Clone(tables), table.Hours) {
			if t.Name != table.Corrections.Name {
				if _, err := tx.Exec(ctx, "delete from "+schemaName+"."+t.Name+" where cluster = $1 and hour = $2", h.Cluster, h.Start); err != nil {
					return err
				}
			}
			if _, err := tx.CopyFrom(ctx, pgx.Identifier{schemaName, t.Name}, t.Names(), pgx.CopyFromRows(values(t.Rows(h)))); err != nil {
				return fmt.Errorf("table %s.%s: %w", schemaName, t.Name, rejected(err))
			}
		}
		return nil
	})
}

// rejected marks an error of values that the database rejects.
func rejected(err error) error {
	of, ok := errors.AsType[*pgconn.PgError](err)
	return permanent.If(ok && permanent.SQLState(of.Code), err)
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
