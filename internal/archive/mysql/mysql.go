// Package mysql files the archive in a database of MySQL or MariaDB. Times are in UTC.
package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/permanent"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

const (
	// batch is the number of rows in an insert. A statement may have 65,535 values.
	batch = 1000
	// lockTimeout is the maximum wait for another program that files the same hour.
	lockTimeout = 10 * time.Minute
)

// Database is a database of the archive.
type Database struct{ db *sql.DB }

// Open connects, and creates or updates the tables. The password is that of the file, if there is
// one, or that of the URL.
func Open(ctx context.Context, url, passwordFile string) (*Database, error) {
	config, err := parse(url, passwordFile)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	d := &Database{sql.OpenDB(connector)}
	d.db.SetConnMaxIdleTime(time.Minute) // servers close idle connections
	if err := d.locked(ctx, "schema", migrate); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Close closes the connections.
func (d *Database) Close() error { return d.db.Close() }

// Filed returns the row of an hour in the manifest, zero if the hour is not filed.
func (d *Database) Filed(ctx context.Context, cluster string, hour time.Time) (filed table.Filed, err error) {
	err = d.db.QueryRowContext(ctx, "select revision, digest, state = ?, reason from hours where cluster = ? and hour = ?", string(table.Pruned), cluster, hour).
		Scan(&filed.Revision, &filed.Digest, &filed.Pruned, &filed.Reason)
	if errors.Is(err, sql.ErrNoRows) {
		return table.Filed{}, nil
	}
	return filed, err
}

// Nodes returns the nodes with GPUs in the last hour of a cluster that is filed in a period, the end
// not included.
func (d *Database) Nodes(ctx context.Context, cluster string, from, until time.Time) (nodes []string, err error) {
	rows, err := d.db.QueryContext(ctx, "select distinct node from gpu_hours where cluster = ? and hour = (select max(hour) from hours where cluster = ? and hour >= ? and hour < ?)",
		cluster, cluster, from, until)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var node string
		if err := rows.Scan(&node); err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	slices.Sort(nodes)
	return nodes, rows.Err()
}

// Clusters returns the filed hours of each cluster that are not before a moment.
func (d *Database) Clusters(ctx context.Context, since time.Time) (map[string]table.Span, error) {
	rows, err := d.db.QueryContext(ctx, "select cluster, min(hour), max(hour) from hours where hour >= ? group by cluster", since)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	spans := make(map[string]table.Span)
	for rows.Next() {
		var cluster string
		var first, last time.Time
		if err := rows.Scan(&cluster, &first, &last); err != nil {
			return nil, err
		}
		spans[cluster] = table.Span{}.Extend(first).Extend(last)
	}
	return spans, rows.Err()
}

// Replace files an hour.
func (d *Database) Replace(ctx context.Context, h *table.Hour) error {
	return d.file(ctx, h, table.Data)
}

// Correct files the corrections of an hour beside earlier ones, and its row in the manifest.
func (d *Database) Correct(ctx context.Context, h *table.Hour) error {
	return d.file(ctx, h, []table.Table{table.Corrections})
}

// file replaces the rows of an hour in some tables and in the manifest, in one transaction. Programs
// that file the same hour wait for each other.
func (d *Database) file(ctx context.Context, h *table.Hour, tables []table.Table) error {
	return d.locked(ctx, h.Cluster+" "+h.Start.String(), func(ctx context.Context, conn *sql.Conn) error {
		// Other isolation levels lock the gap between two hours, in which another program may file.
		tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		var state string // the row is locked: it may be pruned now
		err = tx.QueryRowContext(ctx, "select state from hours where cluster = ? and hour = ? for update", h.Cluster, h.Start).Scan(&state)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if table.State(state) == table.Pruned {
			return table.ErrPruned
		}
		for _, t := range append(slices.Clone(tables), table.Hours) {
			if err := replace(ctx, tx, t, h); err != nil {
				return fmt.Errorf("table %s: %w", t.Name, err)
			}
		}
		return tx.Commit()
	})
}

// replace replaces the rows of an hour in a table. Rows of corrections have a revision, so earlier
// ones are kept.
func replace(ctx context.Context, tx *sql.Tx, t table.Table, h *table.Hour) error {
	if t.Name != table.Corrections.Name {
		if _, err := tx.ExecContext(ctx, "delete from "+t.Name+" where cluster = ? and hour = ?", h.Cluster, h.Start); err != nil {
			return err
		}
	}
	first := 0
	for rows := range slices.Chunk(t.Rows(h), batch) {
		text, values := insert(t, first, rows)
		if _, err := tx.ExecContext(ctx, text, values...); err != nil {
			return rejected(err)
		}
		first += len(rows)
	}
	return nil
}

// badText is the number of the error for a text that does not fit the character set of its column. Its
// SQLSTATE is a general one.
const badText = 1366

// rejected marks an error of values that the database rejects.
func rejected(err error) error {
	of, ok := errors.AsType[*mysql.MySQLError](err)
	return permanent.If(ok && (permanent.SQLState(string(of.SQLState[:])) || of.Number == badText) || errors.Is(err, mysql.ErrPktTooLarge), err)
}

// insert returns a statement that inserts rows, and its values. The rows of an hour are numbered,
// except in tables whose rows have short keys.
func insert(t table.Table, first int, rows [][]any) (string, []any) {
	columns := t.Names()
	if numbered(t) {
		columns = append(columns, "n")
	}
	one := "(?" + strings.Repeat(",?", len(columns)-1) + ")"
	values := make([]any, 0, len(rows)*len(columns))
	for i, row := range rows {
		for _, value := range row {
			if at, ok := value.(time.Time); ok && at.IsZero() {
				value = nil
			}
			values = append(values, value)
		}
		if len(row) < len(columns) {
			values = append(values, first+i)
		}
	}
	return "insert into " + t.Name + " (" + strings.Join(columns, ", ") + ") values " + one + strings.Repeat(","+one, len(rows)-1), values
}

// numbered reports whether the rows of a table have numbers.
func numbered(t table.Table) bool {
	return t.Name != table.Hours.Name && t.Name != table.MonthlyCharges.Name && !t.IsAppended()
}

// Elsewhere returns the scraped GPUs of a filed hour, except in some clusters.
func (d *Database) Elsewhere(ctx context.Context, except []string, hour time.Time) (found []table.Seen, err error) {
	values := []any{hour, hour}
	for _, cluster := range except {
		values = append(values, cluster)
	}
	text := "select g.cluster, g.node, g.uuid, g.serial, g.first_seen, g.last_seen from hours as h join gpu_hours as g on g.cluster = h.cluster and g.hour = h.hour" +
		" where h.hour = ? and g.hour = ? and g.scrapes > 0"
	if len(except) > 0 {
		text += " and h.cluster not in (?" + strings.Repeat(", ?", len(except)-1) + ")"
	}
	err = each(ctx, d.db, text, values, func(rows *sql.Rows) error {
		var s table.Seen
		err := rows.Scan(&s.Cluster, &s.Node, &s.UUID, &s.Serial, &s.First, &s.Last)
		found = append(found, s)
		return err
	})
	return found, err
}

// Charges returns the filed charges of an hour, and its corrections.
func (d *Database) Charges(ctx context.Context, cluster string, hour time.Time) (charges []fold.Charge, err error) {
	for _, t := range []table.Table{table.Charges, table.Corrections} {
		rows, err := d.db.QueryContext(ctx, "select "+strings.Join(t.Names(), ", ")+" from "+t.Name+" where cluster = ? and hour = ?", cluster, hour)
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			row, err := scan(rows, t)
			if err != nil {
				return nil, errors.Join(err, rows.Close())
			}
			charges = append(charges, table.ChargeIn(t, row))
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	return charges, nil
}

// scan returns a row with values as in [table.Table].
func scan(rows *sql.Rows, t table.Table) ([]any, error) {
	values, targets := make([]any, len(t.Columns)), make([]any, len(t.Columns))
	for i := range values {
		targets[i] = &values[i]
	}
	if err := rows.Scan(targets...); err != nil {
		return nil, err
	}
	for i, value := range values {
		if text, ok := value.([]byte); ok {
			values[i] = string(text)
		}
	}
	return values, nil
}

// locked calls a function with a connection that has a lock of the server. The server releases the
// lock at the end of the connection at the latest.
func (d *Database) locked(ctx context.Context, lock string, do func(context.Context, *sql.Conn) error) error {
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// A lock belongs to all databases of a server, and its name has at most 64 characters.
	const key = "sha1(concat('gpuledger ', database(), ' ', ?))"
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "select get_lock("+key+", ?)", lock, int(lockTimeout.Seconds())).Scan(&got); err != nil {
		return fmt.Errorf("lock %s: %w", lock, err)
	}
	if got.Int64 != 1 {
		return fmt.Errorf("lock %s: another program has it since %s", lock, lockTimeout)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = conn.ExecContext(ctx, "do release_lock("+key+")", lock)
	}()
	return do(ctx, conn)
}
