package database

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/gpuledger/gpuledger/internal/archive/address"
	"github.com/gpuledger/gpuledger/internal/archive/permanent"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

const schemaName = "gpuledger"

// Postgres is the dialect of PostgreSQL.
var Postgres = &Dialect{
	Name:        "postgres",
	connector:   connectPostgres,
	schema:      schemaName + ".",
	parameter:   func(n int) string { return "$" + strconv.Itoa(n) },
	skip:        insertion{"insert into", " on conflict do nothing"},
	partitioned: true,
	maxValues:   32_000, // the limit is 65,535
	value:       valuePostgres,
	columns: "select relname, attname from pg_attribute join pg_class on pg_class.oid = attrelid" +
		" where relnamespace = to_regnamespace('" + schemaName + "') and relkind in ('r', 'p') and not relispartition and attnum > 0 and not attisdropped",
	lock:     lockPostgres,
	copyRows: copyPostgres,
	rejects: func(err error) bool {
		of, ok := errors.AsType[*pgconn.PgError](err)
		return ok && permanent.SQLState(of.Code)
	},
	rolledBack: func(err error) bool {
		of, ok := errors.AsType[*pgconn.PgError](err)
		return ok && rollback(of.Code)
	},
	addColumns: func(name, space, columns string) string { return "alter table " + name + space + columns + ";\n" },
	lastModel:  `max(model collate "C") collate "default"`,
	views:      viewsPostgres,
	fillDays:   fillDaysPostgres,
	prelude:    "set local search_path to " + schemaName + ";\n\n",
	statements: func(script string) []string { return []string{createSchema, script} },
	print:      printPostgres,
	tables:     "the schema " + schemaName,
	command:    "schema",
}

// connectPostgres accepts a URL of libpq. If the URL omits a value, variables of libpq such as PGPASSWORD and
// PGPASSFILE supply it.
func connectPostgres(url, _ string, as access) (driver.Connector, error) {
	config, err := parsePostgres(url)
	if err != nil {
		return nil, err
	}
	if as == read {
		config.RuntimeParams["search_path"] = schemaName
		config.RuntimeParams["timezone"] = "UTC"
		config.RuntimeParams["default_transaction_read_only"] = "on"
	}
	return hidingConnector{stdlib.GetConnector(*config), url, config.Host}, nil
}

// parsePostgres replaces the errors of the driver. They contain the URL with its secrets.
func parsePostgres(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err == nil {
		config.ConnectTimeout = cmp.Or(config.ConnectTimeout, 10*time.Second)
		if config.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement { // the driver's default
			// The text of an insert statement depends on the number of rows. The server would keep a prepared statement
			// for each of these texts.
			config.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec
		}
		return config, nil
	}
	const want = "must be a URL such as postgres://archive@db.example.com/gpuledger"
	u, invalid := address.Parse(url)
	if invalid != nil {
		return nil, fmt.Errorf("%s: %w", want, invalid)
	}
	var parsing *pgconn.ParseConfigError
	if cause := errors.Unwrap(err); errors.As(err, &parsing) && cause != nil {
		err = cause // the cause does not contain the URL
	}
	return nil, fmt.Errorf("%s: %w", want, address.Hide(u, err))
}

// The errors of hidingConnector contain no secrets from the URL.
type hidingConnector struct {
	driver.Connector
	url, host string
}

func (c hidingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err == nil || !strings.Contains(c.url, "://") {
		return conn, err
	}
	u, invalid := address.Parse(c.url)
	if invalid != nil || strings.Contains(c.host, "@") {
		return nil, errors.New("cannot connect; the reason is not shown, because it may contain the password: percent-encode the characters / ? # @ % in the password")
	}
	return nil, address.Hide(u, err)
}

// ddlLock is the advisory lock for changes of the schema.
const ddlLock = 0x6770756c // "gpul"

func lockPostgres(ctx context.Context, t *transaction, of lock) error {
	if of == (lock{}) {
		return t.exec(ctx, SQL("select pg_advisory_xact_lock(?)", int64(ddlLock)))
	}
	return t.exec(ctx, SQL("select pg_advisory_xact_lock(hashtextextended(?, ?))", of.cluster, of.day.Unix()))
}

// valuePostgres removes zero bytes from strings. PostgreSQL rejects them.
func valuePostgres(value any) any {
	if text, ok := value.(string); ok {
		return strings.ReplaceAll(text, "\x00", "")
	}
	return value
}

func copyPostgres(ctx context.Context, t *transaction, of table.Table, rows [][]any) error {
	return t.conn.Raw(func(conn any) error {
		_, err := conn.(*stdlib.Conn).Conn().CopyFrom(ctx, pgx.Identifier{schemaName, of.Name}, of.Names(), pgx.CopyFromRows(rows))
		return err
	})
}

// createSchema first checks whether the schema exists. "create schema if not exists" would always require the right to
// create a schema.
const createSchema = `do $$ begin
  if to_regnamespace('` + schemaName + `') is null then
    create schema ` + schemaName + `;
  end if;
end $$`

func viewsPostgres(text string) string {
	text = dateOf.ReplaceAllString(text, "($1 at time zone 'UTC')::date")
	text = jsonValue.ReplaceAllString(text, "($1::json ->> '$2')")
	return jsonPart.ReplaceAllString(text, "($1::json -> '$2')::text")
}

// fillDaysPostgres adds up one day at a time. This needs little memory, even for years of data.
func fillDaysPostgres(name string, sum func(where string) string) string {
	return `do $$ declare start timestamptz; begin
  if not exists (select from ` + name + `) then
    for start in select distinct date_trunc('day', hour, 'UTC') from ` + schemaName + `.hours loop
` + sum(" where hour >= start and hour < start + interval '24 hours'") + `;
    end loop;
  end if;
end $$`
}

func printPostgres(script string, from, until time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "begin;\n%s;\n%s\n", createSchema, script)
	for month := table.Month(from); month.Before(until); month = month.AddDate(0, 1, 0) {
		for _, p := range partitions(month, partitioned...) {
			b.WriteString(p.create + ";\n")
		}
	}
	b.WriteString("commit;\n")
	return b.String()
}
