package database

import (
	"context"
	"database/sql/driver"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Dialect is a kind of database. Everything that differs between databases belongs here. A new kind needs a value in
// its own file, an entry in [Dialects], and a folder of migrations.
type Dialect struct {
	// Name identifies the kind in commands. Its folder of migrations has the same name.
	Name string

	// connector returns the connector of the driver for a URL. The password in a password file has precedence over the
	// password in the URL. Errors from the connector contain no secrets.
	connector func(url, passwordFile string, as access) (driver.Connector, error)

	// schema is the prefix of table names, such as "gpuledger.".
	schema string
	// parameter returns the placeholder for the n-th parameter of a statement. The first parameter is 1.
	parameter func(n int) string
	// maxValues is the maximum number of values in an insert statement.
	maxValues int
	// skip inserts rows. It skips rows whose keys exist.
	skip insertion
	// numbered is set if the primary key contains a row number, because names are too long for an index.
	numbered bool
	// partitioned is set if the large tables have a partition for each month.
	partitioned bool
	// value converts a value to a type that the driver accepts.
	value func(value any) any
	// columns is a query for the names of all tables and their columns.
	columns string

	// lock waits until no other transaction holds a lock, and then acquires it. If unlock is nil, the database releases
	// the lock at the end of the transaction.
	lock, unlock func(ctx context.Context, t *transaction, of lock) error
	// copyRows inserts many rows. It is nil if insert statements are as fast as a copy.
	copyRows func(ctx context.Context, t *transaction, of table.Table, rows [][]any) error
	// rejects reports whether an error means that the database rejects the values of rows.
	rejects func(err error) bool
	// rolledBack reports whether an error means that the database rolled back a transaction in favour of another one.
	// It is nil if there is only one writer.
	rolledBack func(err error) bool

	// addColumns returns the statements that add missing columns to a table. space precedes the columns.
	addColumns func(name, space, columns string) string
	// views translates the statements for the views from the MySQL dialect.
	views func(text string) string
	// fillDays returns a statement that inserts the sums of all days into an empty table, day by day. sum returns the
	// statement for the sums of some hours; a condition selects them. fillDays is nil if one statement can insert all
	// sums.
	fillDays func(name string, sum func(where string) string) string
	// prelude is executed before the migrations.
	prelude string
	// statements splits a script into statements that the driver can execute.
	statements func(script string) []string
	// print returns a script that an administrator can run, with partitions for the months between
	// two moments.
	print func(script string, from, until time.Time) string
	// tables names the tables in an error. command prints the script for an administrator.
	tables, command string
}

// Dialects contains all kinds of databases.
var Dialects = []*Dialect{Postgres, MySQL, SQLite}

// Named returns the dialect with the given name, or nil if there is none.
func Named(name string) *Dialect {
	i := slices.IndexFunc(Dialects, func(d *Dialect) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return Dialects[i]
}

// access states whether a connection writes or only reads.
type access int

const (
	write access = iota
	read
)

// insertion describes an insert statement: the text before the name of the table, and the text after the rows.
type insertion struct{ into, end string }

// lock identifies a day of a cluster, which only one program changes at a time. A lock without a day is for the chain
// of the cluster, and the zero lock is for changes of the schema. A transaction acquires the lock of a chain last.
type lock struct {
	cluster string
	day     time.Time
}

// lockOf returns the lock for the day that contains an hour.
func lockOf(cluster string, hour time.Time) lock { return lock{cluster, table.Day(hour)} }

// rollback reports whether a SQLSTATE belongs to class 40, transaction rollback.
func rollback(state string) bool { return strings.HasPrefix(state, "40") }

// asIs returns a value unchanged.
func asIs[T any](value T) T { return value }
