package database

import (
	"context"
	"database/sql/driver"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Dialect is a kind of database: all that differs between kinds. A new kind is a value in its own file, an entry in [Dialects],
// and a folder of migrations. The rest of this package is the same for all.
type Dialect struct {
	// Name is the name of the kind in commands, and of its folder of migrations.
	Name string

	// connector returns the connector of the driver for a URL. A password file replaces the password of the URL. Errors of the
	// connector, too, have no secrets.
	connector func(url, passwordFile string, as access) (driver.Connector, error)

	// schema precedes the names of tables, such as "gpuledger.".
	schema string
	// parameter returns the n-th parameter of a statement, from 1.
	parameter func(n int) string
	// skip inserts rows except those whose key exists.
	skip insertion
	// numbered is set if rows have a number in their key, because an index cannot have long names.
	numbered bool
	// partitioned is set if the dialect has the partitions of months.
	partitioned bool
	// value returns a value as the driver accepts it.
	value func(value any) any
	// columns selects the names of all tables and their columns.
	columns string

	// lock waits until no other transaction has a lock. The lock is held until the end of the transaction, or of unlock, which may
	// be nil.
	lock, unlock func(ctx context.Context, t *transaction, of lock) error
	// copyRows inserts many rows. It is nil if inserts are as fast.
	copyRows func(ctx context.Context, t *transaction, of table.Table, rows [][]any) error
	// rejects reports whether an error means that the database rejects the values of rows.
	rejects func(err error) bool
	// rolledBack reports whether an error means that the database rolled back a transaction so that another one could continue. It is nil if
	// there is one writer.
	rolledBack func(err error) bool

	// views translates the statements that create the views from the dialect of MySQL.
	views func(text string) string
	// fillDays returns a statement that adds the sums of all days to a table, day by day, if it is empty. Sum returns the statement for the
	// hours of a condition. It is nil if one statement adds them all.
	fillDays func(name string, sum func(where string) string) string
	// prelude precedes migrations.
	prelude string
	// statements returns the statements of a script for the driver.
	statements func(script string) []string
	// print returns a script that an administrator can run, with partitions of the months from a moment until another one.
	print func(script string, from, until time.Time) string
	// tables names the tables in an error, and command the command that prints the script.
	tables, command string
}

// Dialects are all kinds of databases.
var Dialects = []*Dialect{Postgres, MySQL, SQLite}

// Named returns the dialect with a name, nil if there is none.
func Named(name string) *Dialect {
	i := slices.IndexFunc(Dialects, func(d *Dialect) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return Dialects[i]
}

// access is the kind of access to tables.
type access int

const (
	write access = iota
	read
)

// insertion is the text of an insert before the name of the table, and after the rows.
type insertion struct{ into, end string }

// lock identifies a day of a cluster, which one program changes at a time. It is zero for changes of the tables themselves.
type lock struct {
	cluster string
	day     time.Time
}

// lockOf returns the lock of the day of an hour.
func lockOf(cluster string, hour time.Time) lock { return lock{cluster, table.Day(hour)} }

// rollback reports whether a SQLSTATE is of class 40, transaction rollback.
func rollback(state string) bool { return strings.HasPrefix(state, "40") }

// asIs returns a value without a change.
func asIs[T any](value T) T { return value }
