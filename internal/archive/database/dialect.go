package database

import (
	"context"
	"database/sql/driver"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Dialect contains everything that differs between kinds of databases. A new kind needs a value in its own file, an
// entry in [Dialects], and a folder of migrations.
type Dialect struct {
	// Name is the name of the kind in commands, and the name of the folder of migrations.
	Name string

	// connector returns the connector of the driver for a URL. A password file takes precedence over a password in the
	// URL. Errors contain no secrets.
	connector func(url, passwordFile string, as access) (driver.Connector, error)

	// schema is the prefix of table names, such as "gpuledger.".
	schema string
	// parameter returns the placeholder for a parameter of a statement. The first parameter has the number 1.
	parameter func(n int) string
	// maxValues is the maximum number of values in an insert statement.
	maxValues int
	// skip inserts rows. It skips rows whose keys are already in the table.
	skip insertion
	// numbered is set if the primary key contains a row number, because names are too long for an index.
	numbered bool
	// partitioned is set if the large tables have a partition for each month.
	partitioned bool
	// value converts a value to a type that the driver accepts.
	value func(value any) any
	// columns is a query for the names of all tables and their columns.
	columns string

	// lock waits until no other transaction holds the lock. If unlock is nil, the database itself releases the lock at
	// the end of the transaction.
	lock, unlock func(ctx context.Context, t *transaction, of lock) error
	// copyRows inserts many rows. It is nil if insert statements are the fastest way.
	copyRows func(ctx context.Context, t *transaction, of table.Table, rows [][]any) error
	// rejects reports whether the database returned an error because of values in the rows.
	rejects func(err error) bool
	// rolledBack reports whether the database rolled back a transaction in favour of another transaction. It is nil for
	// a database with only one writer.
	rolledBack func(err error) bool

	// addColumns returns statements that add columns to a table. space is the white space before the columns.
	addColumns func(name, space, columns string) string
	// views translates the statements for the views from the MySQL dialect.
	views func(text string) string
	// fillDays returns a statement that inserts the sums of all days into an empty table, day by day. sum returns the
	// statement that adds up the hours in a condition. fillDays is nil if a single statement can insert all sums.
	fillDays func(name string, sum func(where string) string) string
	// lastModel is the SQL expression for the model that is last in the order of bytes, as in [table.Models].
	lastModel string
	// prelude is executed before the migrations.
	prelude string
	// statements splits a script into parts that the driver can execute.
	statements func(script string) []string
	// print completes a script for an administrator, with partitions for the months in [from, until).
	print func(script string, from, until time.Time) string
	// tables is the text for the tables in an error about missing rights. command is the command that prints the script
	// for an administrator.
	tables, command string
}

// Dialects contains all kinds of databases.
var Dialects = []*Dialect{Postgres, MySQL, SQLite}

// Named returns the dialect with the given name. It returns nil if there is none.
func Named(name string) *Dialect {
	i := slices.IndexFunc(Dialects, func(d *Dialect) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return Dialects[i]
}

type access int

const (
	write access = iota
	read
)

// into is the text of an insert statement before the name of the table. end is the text after the rows.
type insertion struct{ into, end string }

// lock identifies a day of a cluster. Only one transaction at a time may change the day. A lock without a day is for
// the chain of the cluster. A transaction acquires this lock last. The zero lock is for changes of the schema.
type lock struct {
	cluster string
	day     time.Time
}

func lockOf(cluster string, hour time.Time) lock { return lock{cluster, table.Day(hour)} }

// Class 40 of SQLSTATE is transaction rollback.
func rollback(state string) bool { return strings.HasPrefix(state, "40") }

func asIs[T any](value T) T { return value }
