package database

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/gpuledger/gpuledger/internal/archive/address"
	"github.com/gpuledger/gpuledger/internal/archive/permanent"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/cli"
)

// MySQL is the dialect of MySQL and MariaDB. Times are in UTC.
//
// The tables have no partitions. MySQL can add partitions only in chronological order, but months may be written in any
// order. Each new partition would also alter the table. The primary key keeps the rows of an hour together.
var MySQL = &Dialect{
	Name:      "mysql",
	connector: connectMySQL,
	parameter: func(int) string { return "?" },
	value:     asIs[any],
	// "Insert ignore" truncates long strings, but strings of events are never too long. The alternative "on duplicate
	// key update" would require the update privilege.
	skip:      insertion{into: "insert ignore into"},
	numbered:  true,
	maxValues: 32_000, // the limit is 65,535
	columns:   "select table_name, column_name from information_schema.columns where table_schema = database()",
	lock:      lockMySQL,
	unlock:    unlockMySQL,
	rejects: func(err error) bool {
		of, ok := errors.AsType[*mysql.MySQLError](err)
		return ok && (permanent.SQLState(string(of.SQLState[:])) || of.Number == badText) || errors.Is(err, mysql.ErrPktTooLarge)
	},
	rolledBack: func(err error) bool {
		of, ok := errors.AsType[*mysql.MySQLError](err)
		return ok && rollback(string(of.SQLState[:]))
	},
	addColumns: addMySQL,
	lastModel:  "max(model)",
	views:      asIs[string],
	statements: split, // MySQL cannot roll back changes of tables, so a transaction has no advantage
	print:      func(script string, _, _ time.Time) string { return script },
	tables:     "the tables",
	command:    "schema mysql",
}

// addMySQL uses a prepared statement, because MySQL has no "add column if not exists". If the last column is missing,
// the statement adds all columns.
func addMySQL(name, space, columns string) string {
	last, _, _ := strings.Cut(columns[strings.LastIndex(columns, addMissing)+len(addMissing):], " ")
	return strings.NewReplacer("{table}", name, "{column}", last, "{change}", "alter table "+name+space+strings.ReplaceAll(columns, addMissing, "add column ")).Replace(`
set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = '{table}' and column_name = '{column}') > 0, 'do 0', '
{change}
');
prepare change_{table} from @change;
execute change_{table};
deallocate prepare change_{table};
`)
}

// badText is the error number for a string that does not fit the character set of its column. The SQLSTATE of this
// error also stands for other errors.
const badText = 1366

func connectMySQL(url, passwordFile string, _ access) (driver.Connector, error) {
	config, err := parseMySQL(url, passwordFile)
	if err != nil {
		return nil, err
	}
	return mysql.NewConnector(config)
}

// parseMySQL accepts URLs such as mysql://archive@db.example.com:3306/gpuledger?tls=true. The parameters are the
// parameters of the driver. Errors contain no secrets.
func parseMySQL(text, passwordFile string) (*mysql.Config, error) {
	u, err := address.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "mysql" && u.Scheme != "mariadb" {
		return nil, errors.New("must be a URL such as mysql://archive@db.example.com/gpuledger")
	}
	config, err := mysql.ParseDSN("/?" + strings.ReplaceAll(u.RawQuery, "/", "%2F"))
	if err != nil {
		return nil, fmt.Errorf("parameters of the URL: %w", address.Hide(u, err))
	}
	config.Net, config.Addr = "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "3306"))
	if config.DBName = strings.TrimPrefix(u.Path, "/"); config.DBName == "" {
		return nil, errors.New("no database is given: must be a URL such as mysql://archive@db.example.com/gpuledger")
	}
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	if passwordFile != "" {
		password, err := cli.ReadSecret(passwordFile)
		if err != nil {
			return nil, fmt.Errorf("read the password: %w", err)
		}
		config.Passwd = strings.TrimRight(string(password), "\r\n")
	}
	// By default, TLS is used if the server supports it. MySQL's own clients do the same. With tls=true in the URL, the
	// client also verifies the server's certificate.
	config.TLSConfig = cmp.Or(config.TLSConfig, "preferred")
	config.Timeout = cmp.Or(config.Timeout, 10*time.Second)
	config.ParseTime, config.Loc = true, time.UTC
	config.Logger = &mysql.NopLogger{} // the driver returns the same errors
	if config.Params == nil {
		config.Params = make(map[string]string)
	}
	config.Params["sql_mode"] = "'STRICT_ALL_TABLES'" // a text that is too long is an error
	return config, nil
}

// lockTimeout is the maximum time to wait for another program that changes the same day.
const lockTimeout = 10 * time.Minute

// The name of a lock may have at most 64 characters, and all databases of a server share these names. Therefore the
// name is a hash of a text with the name of the database.
const lockKey = "sha1(concat('gpuledger ', database(), ' ', ?))"

func lockMySQL(ctx context.Context, t *transaction, of lock) error {
	name := nameMySQL(of)
	got, err := t.value(ctx, SQL("select coalesce(get_lock("+lockKey+", ?), 0)", name, int(lockTimeout.Seconds())), table.Int)
	if err != nil {
		return fmt.Errorf("lock %s: %w", name, err)
	}
	if got.Int != 1 {
		return fmt.Errorf("lock %s: another program has held it for %s or longer", name, lockTimeout)
	}
	return nil
}

// The server itself would release the lock only at the end of the connection.
func unlockMySQL(ctx context.Context, t *transaction, of lock) error {
	_, err := t.conn.ExecContext(ctx, "do release_lock("+lockKey+")", nameMySQL(of))
	return err
}

func nameMySQL(of lock) string {
	if of == (lock{}) {
		return "schema"
	}
	return of.cluster + " " + of.day.String()
}
