package database

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

// After a transaction has failed and was rolled back, its locks must be released.
func TestUnlock(t *testing.T) {
	var ended error
	dialect := *SQLite
	dialect.unlock = func(ctx context.Context, t *transaction, _ lock) error {
		ended = t.exec(ctx, SQL("select 1"))
		return nil
	}
	d, err := dialect.Open(t.Context(), filepath.Join(t.TempDir(), "archive.db"), "")
	check(t, err)
	defer d.Close()
	failed := errors.New("failed")
	if err := d.transaction(t.Context(), func(*transaction) error { return failed }, lock{}); !errors.Is(err, failed) {
		t.Errorf("error is %v", err)
	}
	if !errors.Is(ended, sql.ErrTxDone) {
		t.Errorf("locks are released during the transaction: a statement returns %v", ended)
	}
}

// A transaction that the database has rolled back must run again, at most a few times. The changes of its earlier runs
// must be lost. After any other error, it must not run again.
func TestDeadlock(t *testing.T) {
	deadlock := errors.Join(&mysql.MySQLError{Number: 1213, SQLState: [5]byte{'4', '0', '0', '0', '1'}}) // ER_LOCK_DEADLOCK
	for _, test := range []struct {
		failures, runs int
		failure, want  error
	}{
		{0, 1, deadlock, nil},
		{2, 3, deadlock, nil},
		{100, attempts, deadlock, deadlock},
		{1, 1, &mysql.MySQLError{Number: 1146, SQLState: [5]byte{'4', '2', 'S', '0', '2'}}, &mysql.MySQLError{Number: 1146}}, // ER_NO_SUCH_TABLE
	} {
		dialect := *SQLite
		dialect.rolledBack = MySQL.rolledBack
		d, err := dialect.Open(t.Context(), filepath.Join(t.TempDir(), "archive.db"), "")
		check(t, err)
		runs := 0
		err = d.transaction(t.Context(), func(tx *transaction) error {
			runs++
			if err := tx.exec(t.Context(), SQL("create table once (n integer)")); err != nil {
				return err
			}
			if runs <= test.failures {
				return test.failure
			}
			return nil
		})
		if !errors.Is(err, test.want) || runs != test.runs {
			t.Errorf("%d times %v: %d runs and error %v, want %d and %v", test.failures, test.failure, runs, err, test.runs, test.want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if !Postgres.rolledBack(&pgconn.PgError{Code: "40P01"}) || Postgres.rolledBack(&pgconn.PgError{Code: "57P01"}) { // deadlock_detected, admin_shutdown
		t.Error("PostgreSQL's deadlock is not distinguished")
	}
}
