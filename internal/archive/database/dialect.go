package database

import (
	"context"
	"database/sql/driver"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Dialect is a kind of database, and contains everything that differs between databases. A new kind needs a value in
// its own file, an entry in [Dialects], and a folder of migrations.
type Dialect struct {
	// Name is used in commands, and is the name of the folder of migrations.
	Name string

	// connector returns the connector of the driver for a URL. A password file has precedence over a password in the
	// URL. Errors contain no secrets.
	connector func(url, passwordFile string, as access) (driver.Connector, error)

	// schema is the prefix of table names, such as "gpuledger.".
	schema string
	// parameter returns the placeholder for the n-th parameter of a statement, from 1 on.
	parameter func(n int) string
	// maxValues is the maximum number of values in an insert statement.
	maxValues int
	// skip inserts rows, except rows whose keys are already in the table.
	skip insertion
	// numbered is set if the primary key contains a row number, because names are too long for an index.
	numbered bool
	// partitioned is set if the large tables have a partition for each month.
	partitioned bool
	// value converts a value to a type that the driver accepts.
	value func(value any) any
	// columns is a query for the names of all tables and their columns.
	columns string

	// lock waits until no other transaction holds the lock. If unlock is nil, the database releases the lock at the end
	// of the transaction.
	lock, unlock func(ctx context.Context, t *transaction, of lock) error
	// copyRows inserts many rows. It is nil if the dialect has no faster way than insert statements.
	copyRows func(ctx context.Context, t *transaction, of table.Table, rows [][]any) error
	// rejects reports whether the database returned an error because of the values of rows.
	rejects func(err error) bool
	// rolledBack reports whether the database rolled back a transaction in favour of another transaction. It is nil if
	// there is only one writer.
	rolledBack func(err error) bool

	// addColumns returns statements that add columns to a table. space is the white space before the columns.
	addColumns func(name, space, columns string) string
	// views translates the statements for the views from the MySQL dialect.
	views func(text string) string
	// fillDays returns a statement that inserts the sums of all days into an empty table, day by day. Its argument sum
	// returns the statement that adds up the hours that a condition selects. fillDays is nil if one statement can
	// insert all sums.
	fillDays func(name string, sum func(where string) string) string
	// prelude is executed before the migrations.
	prelude string
	// statements splits a script into parts that the driver can execute.
	statements func(script string) []string
	// print completes a script for an administrator, with partitions for the months in [from, until).
	print func(script string, from, until time.Time) string
	// tables names the tables in an error about missing rights. command prints the script for an administrator.
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

type access int

const (
	write access = iota
	read
)

// into is the text of an insert statement before the name of the table, and end is the text after the rows.
type insertion struct{ into, end string }

// lock identifies a day of a cluster that only one transaction may change at a time. A lock without a day is for the
// chain of the cluster; a transaction acquires it last. The zero lock is for changes of the schema.
type lock struct {
	cluster string
	day     time.Time
}

func lockOf(cluster string, hour time.Time) lock { return lock{cluster, table.Day(hour)} }

// Class 40 of SQLSTATE is transaction rollback.
func rollback(state string) bool { return strings.HasPrefix(state, "40") }

func asIs[T any](value T) T { return value }
