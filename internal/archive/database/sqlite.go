package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// SQLite is the dialect of SQLite. Its URL is the path of a file. Times are strings in the format [table.Format]. Days
// need no locks, because a transaction locks the whole file.
var SQLite = &Dialect{
	Name:      "sqlite",
	connector: connectSQLite,
	parameter: func(int) string { return "?" },
	value: func(value any) any {
		if at, ok := value.(time.Time); ok {
			return table.Format(at)
		}
		return value
	},
	skip: insertion{"insert into", " on conflict do nothing"},
	// The driver's time grows with the square of the number of values. The maximum is therefore far below SQLite's
	// limit of 32,766.
	maxValues: 1000,
	columns:   "select tables.name, columns.name from sqlite_schema as tables join pragma_table_info(tables.name) as columns where tables.type = 'table'",
	lock:      func(context.Context, *transaction, lock) error { return nil },
	rejects: func(err error) bool {
		of, ok := errors.AsType[*sqlite.Error](err)
		return ok && (of.Code()&0xff == lib.SQLITE_CONSTRAINT || of.Code() == lib.SQLITE_TOOBIG)
	},
	addColumns: func(name, _, columns string) string {
		return strings.ReplaceAll("alter table "+name+" add column "+strings.TrimPrefix(columns, addMissing)+";\n", ",\n  "+addMissing, ";\nalter table "+name+" add column ")
	},
	lastModel:  "max(model)",
	views:      viewsSQLite,
	statements: func(script string) []string { return []string{script} },
	print:      func(script string, _, _ time.Time) string { return "begin;\n" + script + "commit;\n" },
	tables:     "the tables",
	command:    "schema sqlite",
}

type sqliteFile struct {
	name string
	as   access
}

// After the last writer has closed the database, Connect keeps the files -wal and -shm. Otherwise a reader that may not
// create files could not open the database.
func (f sqliteFile) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := f.open(ctx)
	if err != nil || f.as == read {
		return conn, err
	}
	if _, err := conn.(sqlite.FileControl).FileControlPersistWAL("main", 1); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// open repeats a failed attempt. If two programs create the file at the same time, they do not wait for each other,
// even with a busy timeout.
func (f sqliteFile) open(ctx context.Context) (driver.Conn, error) {
	for {
		conn, err := f.Driver().Open(f.name)
		if of, ok := errors.AsType[*sqlite.Error](err); !ok || of.Code()&0xff != lib.SQLITE_BUSY {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (f sqliteFile) Driver() driver.Driver { return new(sqlite.Driver) }

// connectSQLite creates a missing file, because the driver's error would not contain the reason. While a program
// writes, readers see the last committed transaction. Writers wait for each other.
func connectSQLite(path, _ string, as access) (driver.Connector, error) {
	options := url.Values{"_pragma": {"busy_timeout(60000)", "journal_mode(wal)", "journal_size_limit(0)"}, "_txlock": {"immediate"}}
	flags := os.O_RDWR | os.O_CREATE
	if as == read {
		options = url.Values{"_pragma": {"busy_timeout(60000)"}, "mode": {"ro"}}
		flags = os.O_RDONLY
	} else if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return nil, err
	}
	name := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: options.Encode()}
	return sqliteFile{name.String(), as}, file.Close()
}

// These expressions match parts of the views that SQLite does not support. It cannot replace a view, and has no type
// for times.
var (
	replacedView = regexp.MustCompile(`create or replace view (\w+)`)
	hourLater    = regexp.MustCompile(`([a-z_.()]+) \+ interval '1' hour`)
)

func viewsSQLite(text string) string {
	text = replacedView.ReplaceAllString(text, "drop view if exists $1;\ncreate view $1")
	text = hourLater.ReplaceAllString(text, "strftime('%Y-%m-%dT%H:%M:%fZ', $1, '+1 hour')")
	text = jsonValue.ReplaceAllString(text, "($1 ->> '$2')")
	return jsonPart.ReplaceAllString(text, "($1 -> '$2')")
}
