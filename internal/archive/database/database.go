// Package database writes the archive to an SQL database, and reads it. [Dialect] lists the differences between
// databases.
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Reader reads the tables. Its database role needs only the select privilege.
type Reader struct {
	session
	db *sql.DB
}

// Database reads and writes the tables.
type Database struct {
	Reader
	creates *bool         // whether the role can create partitions; nil if not yet known
	signer  *chain.Signer // nil if no chain is kept
}

// Open connects to the database, and creates or updates the tables. A password file takes precedence over a password in
// the URL.
func (d *Dialect) Open(ctx context.Context, url, passwordFile string) (*Database, error) {
	connector, err := d.connector(url, passwordFile, write)
	if err != nil {
		return nil, err
	}
	opened := &Database{Reader: d.reader(sql.OpenDB(connector))}
	err = opened.migrate(ctx)
	if err == nil {
		err = opened.repair(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return opened, nil
}

// OpenReader connects to a database for reading.
func (d *Dialect) OpenReader(ctx context.Context, url, passwordFile string) (*Reader, error) {
	connector, err := d.connector(url, passwordFile, read)
	if err != nil {
		return nil, err
	}
	r := d.reader(sql.OpenDB(connector))
	if err := r.db.PingContext(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return &r, nil
}

func (d *Dialect) reader(db *sql.DB) Reader {
	db.SetConnMaxIdleTime(time.Minute) // servers close connections that are idle for too long
	return Reader{session{d, db}, db}
}

// Close closes the connections.
func (r *Reader) Close() error { return r.db.Close() }

func anHour(cluster string, hour time.Time) *Statement {
	return SQL(" where cluster = ? and hour = ?", cluster, hour)
}

// Filed returns the row of an hour in the manifest. It returns zero if the database does not contain the hour.
func (d *Database) Filed(ctx context.Context, cluster string, hour time.Time) (table.Filed, error) {
	rows, err := d.rows(ctx, table.Hours, anHour(cluster, hour))
	if err != nil || len(rows) == 0 {
		return table.Filed{}, err
	}
	return table.FiledIn(rows[0]), nil
}

// Nodes returns the nodes that had GPUs in the last archived hour of a cluster. The hour begins in [from, until).
func (d *Database) Nodes(ctx context.Context, cluster string, from, until time.Time) (nodes []string, err error) {
	text := SQL("select distinct node from {gpu_hours} where cluster = ? and hour = (select max(hour) from {hours} where cluster = ? and hour >= ? and hour < ?)",
		cluster, cluster, from, until)
	err = d.Rows(ctx, text, []table.Type{table.Text}, func(row []table.Cell) bool {
		nodes = append(nodes, row[0].Text)
		return true
	})
	slices.Sort(nodes)
	return nodes, err
}

// Clusters returns the first and last archived hour of each cluster since a time.
func (d *Database) Clusters(ctx context.Context, since time.Time) (map[string]table.Span, error) {
	spans := make(map[string]table.Span)
	text := SQL("select cluster, min(hour), max(hour) from {hours} where hour >= ? group by cluster", since)
	err := d.Rows(ctx, text, []table.Type{table.Text, table.Time, table.Time}, func(row []table.Cell) bool {
		spans[row[0].Text] = table.Span{First: row[1].Time(), Last: row[2].Time()}
		return true
	})
	return spans, err
}

// Elsewhere returns the GPUs that were scraped in an archived hour. It omits the GPUs of the clusters in except.
func (d *Database) Elsewhere(ctx context.Context, except []string, hour time.Time) (found []table.Seen, err error) {
	text := SQL("select g.cluster, g.node, g.uuid, g.serial, g.first_seen, g.last_seen from {hours} as h join {gpu_hours} as g on g.cluster = h.cluster and g.hour = h.hour"+
		" where h.hour = ? and g.hour = ? and g.scrapes > 0", hour, hour)
	if len(except) > 0 {
		text.Add(" and h.cluster not in (?)", except)
	}
	types := []table.Type{table.Text, table.Text, table.Text, table.Text, table.Time, table.Time}
	err = d.Rows(ctx, text, types, func(row []table.Cell) bool {
		found = append(found, table.Seen{Cluster: row[0].Text, Node: row[1].Text, UUID: row[2].Text, Serial: row[3].Text, First: row[4].Time(), Last: row[5].Time()})
		return true
	})
	return found, err
}

// Charges returns the charges of an hour and their corrections.
func (d *Database) Charges(ctx context.Context, cluster string, hour time.Time) (charges []table.Charge, err error) {
	for _, of := range []table.Table{table.Charges, table.Corrections} {
		rows, err := d.rows(ctx, of, anHour(cluster, hour))
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			charges = append(charges, table.ChargeIn(of, row))
		}
	}
	return charges, nil
}

// Replace replaces the rows of an hour. It deletes the corrections of the hour, because the new charges already include
// them.
func (d *Database) Replace(ctx context.Context, h *table.Hour) error {
	return d.file(ctx, h, append(slices.Clone(table.Data), table.Corrections)...)
}

// Correct adds corrections of an hour after the earlier corrections, and replaces the hour's row in the manifest.
func (d *Database) Correct(ctx context.Context, h *table.Hour) error {
	return d.file(ctx, h, table.Corrections)
}

// file replaces the rows of an hour in the given tables and in the manifest. Then it updates the sums of the day. If
// several programs write hours of the same day, they wait for each other.
func (d *Database) file(ctx context.Context, h *table.Hour, tables ...table.Table) error {
	if err := d.createPartitions(ctx, []time.Time{table.Month(h.Start)}, table.Data...); err != nil {
		return err
	}
	return d.transaction(ctx, func(t *transaction) error {
		filed, err := t.rows(ctx, table.Hours, anHour(h.Cluster, h.Start))
		if err != nil {
			return err
		}
		if len(filed) > 0 && table.StateIn(filed[0]) == table.Pruned {
			return table.ErrPruned
		}
		h, isNew := h, len(filed) == 0
		if !isNew && h.State == table.Corrected {
			h = h.Keep(filed[0])
		}
		for _, of := range append(slices.Clone(tables), table.Hours) {
			deleted, err := t.replace(ctx, h, of)
			if err != nil {
				return fmt.Errorf("table %s%s: %w", d.dialect.schema, of.Name, err)
			}
			isNew = isNew && deleted == 0 // the daily sums may include rows of an hour that is not in the manifest
		}
		if err := t.sumHour(ctx, h.Cluster, h.Start, isNew); err != nil {
			return err
		}
		return t.linkHour(ctx, h, tables)
	}, lockOf(h.Cluster, h.Start))
}

// replace keeps the earlier corrections of a corrected hour. It returns the number of deleted rows.
func (t *transaction) replace(ctx context.Context, h *table.Hour, of table.Table) (deleted int64, err error) {
	if of.Name != table.Corrections.Name || h.State != table.Corrected {
		deleted, err = t.change(ctx, SQL("delete from {"+of.Name+"}").Join(anHour(h.Cluster, h.Start)))
		if err != nil {
			return 0, err
		}
	}
	return deleted, t.insert(ctx, of, of.Rows(h))
}
