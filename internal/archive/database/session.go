package database

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/permanent"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// session runs statements, in a transaction or without one.
type session struct {
	dialect *Dialect
	on      interface {
		ExecContext(ctx context.Context, text string, values ...any) (sql.Result, error)
		QueryContext(ctx context.Context, text string, values ...any) (*sql.Rows, error)
	}
}

// DateOfHour returns the SQL expression for the date of the column hour, in UTC.
func (s session) DateOfHour() string { return s.dialect.views("date(hour)") }

// LastModel returns the SQL expression for the last model of a group, in the order of bytes.
func (s session) LastModel() string { return s.dialect.lastModel }

func (s session) exec(ctx context.Context, of *Statement) error {
	_, err := s.change(ctx, of)
	return err
}

// change returns the number of rows that a statement changed.
func (s session) change(ctx context.Context, of *Statement) (int64, error) {
	result, err := s.on.ExecContext(ctx, s.dialect.text(of), s.dialect.values(of.values)...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Rows calls the function each for every row of a query, until this function returns false. types contains the types of
// the columns.
func (s session) Rows(ctx context.Context, of *Statement, types []table.Type, each func(row []table.Cell) bool) error {
	rows, err := s.on.QueryContext(ctx, s.dialect.text(of), s.dialect.values(of.values)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	row, targets := make([]table.Cell, len(types)), make([]any, len(types))
	for i, as := range types {
		switch as {
		case table.Text:
			targets[i] = &row[i].Text
		case table.Int:
			targets[i] = &row[i].Int
		case table.OptionalInt:
			targets[i] = optional{&row[i]}
		case table.Time, table.Date:
			targets[i] = moment{&row[i]}
		}
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		if !each(row) {
			return nil
		}
	}
	return rows.Err()
}

type optional struct{ to *table.Cell }

func (o optional) Scan(value any) error {
	var n sql.NullInt64
	err := n.Scan(value)
	o.to.Int, o.to.Known = n.Int64, n.Valid
	return err
}

type moment struct{ to *table.Cell }

func (m moment) Scan(value any) error {
	m.to.Int = 0
	switch at := value.(type) {
	case nil:
	case time.Time:
		m.to.Int = at.UnixMilli()
	case string:
		layout := time.RFC3339
		if len(at) == len(time.DateOnly) {
			layout = time.DateOnly
		}
		parsed, err := time.Parse(layout, at)
		m.to.Int = parsed.UnixMilli()
		return err
	default:
		return fmt.Errorf("%v is not a time", value)
	}
	return nil
}

// Columns returns the names of all columns in the database, as table.column. Tables from an earlier version lack later
// columns.
func (s session) Columns(ctx context.Context) (map[string]bool, error) {
	all := make(map[string]bool)
	err := s.Rows(ctx, SQL(s.dialect.columns), []table.Type{table.Text, table.Text}, func(row []table.Cell) bool {
		all[row[0].Text+"."+row[1].Text] = true
		return true
	})
	return all, err
}

// value returns the first value of a query with one column. It returns zero if there are no rows.
func (s session) value(ctx context.Context, of *Statement, as table.Type) (value table.Cell, err error) {
	err = s.Rows(ctx, of, []table.Type{as}, func(row []table.Cell) bool { value = row[0]; return false })
	return value, err
}

func (s session) rows(ctx context.Context, of table.Table, where *Statement) (all [][]any, err error) {
	types := make([]table.Type, len(of.Columns))
	for i, c := range of.Columns {
		types[i] = c.Type
	}
	text := SQL("select " + strings.Join(of.Names(), ", ") + " from {" + of.Name + "}").Join(where)
	err = s.Rows(ctx, text, types, func(cells []table.Cell) bool {
		row := make([]any, len(cells))
		for i, c := range cells {
			row[i] = c.Value(types[i])
		}
		all = append(all, row)
		return true
	})
	return all, err
}

type transaction struct {
	session
	conn   *sql.Conn
	signer *chain.Signer
	locks  []lock // locks that the transaction holds
}

// The transaction holds the lock until its end.
func (t *transaction) lock(ctx context.Context, of lock) error {
	t.locks = append(t.locks, of)
	return t.dialect.lock(ctx, t, of)
}

// If the database rolls back a transaction in favour of another transaction, the program runs it again. attempts is the
// maximum number of runs.
const attempts = 5

// Other programs that need one of the locks wait for this transaction. If transactions for different days deadlock, the
// database rolls back one of them, and the program runs it again.
func (d *Database) transaction(ctx context.Context, do func(*transaction) error, locks ...lock) (err error) {
	for range attempts {
		if err = d.attempt(ctx, do, locks...); err == nil || d.dialect.rolledBack == nil || !d.dialect.rolledBack(err) {
			return err
		}
	}
	return err
}

func (d *Database) attempt(ctx context.Context, do func(*transaction) error, locks ...lock) error {
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// In MySQL, a stricter isolation level would lock the gap between two hours, so that other programs could not
	// insert rows there.
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	t := &transaction{session: session{d.dialect, tx}, conn: conn, signer: d.signer}
	if d.dialect.unlock != nil {
		defer t.unlock(ctx)
	}
	defer func() { _ = tx.Rollback() }()
	for _, of := range locks {
		if err := t.lock(ctx, of); err != nil {
			return err
		}
	}
	if err := do(t); err != nil {
		return err
	}
	return tx.Commit()
}

// unlock ignores errors. When the connection is closed, the server releases the locks in any case.
func (t *transaction) unlock(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	for _, of := range t.locks {
		_ = t.dialect.unlock(ctx, t, of)
	}
}

func (t *transaction) insert(ctx context.Context, of table.Table, rows [][]any) error {
	if t.dialect.copyRows == nil {
		return t.insertWith(ctx, insertion{into: "insert into"}, of, rows)
	}
	for i, row := range rows {
		rows[i] = t.dialect.values(row)
	}
	return t.rejected(t.dialect.copyRows(ctx, t, of, rows))
}

func (t *transaction) insertWith(ctx context.Context, with insertion, of table.Table, rows [][]any) error {
	columns := t.dialect.columnNames(of)
	one := "(" + parameters(len(columns)) + ")"
	n := 0
	for part := range slices.Chunk(rows, t.dialect.maxValues/len(columns)) {
		text := SQL(with.into + " {" + of.Name + "} (" + strings.Join(columns, ", ") + ") values ")
		for i, row := range part {
			if i > 0 {
				text.Add(", ")
			}
			if len(row) < len(columns) {
				row = append(row, n)
			}
			text.Add(one, row...)
			n++
		}
		if err := t.exec(ctx, text.Add(with.end)); err != nil {
			return t.rejected(err)
		}
	}
	return nil
}

func (t *transaction) rejected(err error) error {
	return permanent.If(err != nil && t.dialect.rejects(err), err)
}
