package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuledger/gpuledger/internal/archive/schema"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// schemaName is the name of the schema.
const schemaName = "gpuledger"

// ddlLock is the advisory lock for changes of the schema.
const ddlLock = 0x6770756c // "gpul"

// errAdmin is the error of a role without the right to change the schema.
var errAdmin = errors.New("let an administrator run the output of gpuledger-archive schema")

//go:embed migrations/*.sql
var files embed.FS

// Migrations returns the migrations of the schema.
func Migrations() ([]schema.Migration, error) {
	return schema.Load(files, "migrations")
}

// Schema returns a script that creates or updates the schema, with partitions for the months of a
// range. It can be repeated.
func Schema(from, until time.Time) (string, error) {
	migrations, err := Migrations()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "begin;\ncreate schema if not exists %s;\n%s\n", schemaName, script(migrations))
	for month := table.Month(from); month.Before(until); month = month.AddDate(0, 1, 0) {
		for _, p := range partitions(month, partitioned...) {
			b.WriteString(p.create + ";\n")
		}
	}
	b.WriteString("commit;\n")
	return b.String(), nil
}

// script returns the statements of migrations, of the views, and of the version.
func script(migrations []schema.Migration) string {
	return fmt.Sprintf("set local search_path to %s;\n\n%s\ninsert into schema_version values (%d) on conflict do nothing;\n",
		schemaName, schema.Script(migrations, views()), migrations[len(migrations)-1].Version)
}

// The functions for JSON in the views: a value as text, and a part as JSON.
var (
	jsonValue = regexp.MustCompile(`json_value\(([a-z.]+), '\$\.(\w+)'\)`)
	jsonPart  = regexp.MustCompile(`json_extract\(([a-z.]+), '\$\.(\w+)'\)`)
)

// views returns the views in the dialect of PostgreSQL.
func views() string {
	text := strings.ReplaceAll(schema.Views, "date(hour)", "(hour at time zone 'UTC')::date")
	text = jsonValue.ReplaceAllString(text, "($1::json ->> '$2')")
	return jsonPart.ReplaceAllString(text, "($1::json -> '$2')::text")
}

// migrate runs the migrations that the schema lacks, in one transaction. A role without the right to
// change a schema can use one of the same version.
func (d *Database) migrate(ctx context.Context) error {
	migrations, err := Migrations()
	if err != nil {
		return err
	}
	latest := len(migrations)
	found, err := version(ctx, d.conn)
	if err != nil || found >= latest {
		return errors.Join(err, schema.CheckVersion(found, latest))
	}
	err = pgx.BeginFunc(ctx, d.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", ddlLock); err != nil {
			return err
		}
		found, err := version(ctx, tx)
		if err != nil || found >= latest {
			return err
		}
		if err := createSchema(ctx, tx); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, script(migrations[found:]))
		return err
	})
	if err != nil {
		return fmt.Errorf("create version %d of the schema %s: %w: %w", latest, schemaName, err, errAdmin)
	}
	return nil
}

// createSchema creates an empty schema, unless there is one: "if not exists" requires the right to
// create one also then.
func createSchema(ctx context.Context, tx pgx.Tx) error {
	var exists bool
	if err := tx.QueryRow(ctx, "select to_regnamespace($1) is not null", schemaName).Scan(&exists); err != nil || exists {
		return err
	}
	_, err := tx.Exec(ctx, "create schema "+schemaName)
	return err
}

// querier is a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// version returns the version of the schema, 0 without a schema.
func version(ctx context.Context, q querier) (found int, err error) {
	var exists bool
	if err := q.QueryRow(ctx, "select to_regclass($1) is not null", schemaName+".schema_version").Scan(&exists); err != nil || !exists {
		return 0, err
	}
	err = q.QueryRow(ctx, "select coalesce(max(version), 0) from "+schemaName+".schema_version").Scan(&found)
	return found, err
}
