package mysql

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/gpuledger/gpuledger/internal/archive/schema"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations returns the migrations of the schema.
func Migrations() ([]schema.Migration, error) {
	return schema.Load(files, "migrations")
}

// Schema returns a script that creates or updates the tables in the current database. It can be
// repeated.
//
// The tables have no partitions: months may be filed in any order, but MySQL adds partitions in the
// order of time only, and each is a change of the table. The primary key keeps the rows of a
// cluster and hour together.
func Schema() (string, error) {
	migrations, err := Migrations()
	if err != nil {
		return "", err
	}
	return script(migrations), nil
}

// script returns the statements of migrations, of the views, and last that of the version: a script
// that is interrupted is run again, because changes of tables cannot be rolled back.
func script(migrations []schema.Migration) string {
	return fmt.Sprintf("%s\ninsert ignore into schema_version values (%d);\n", schema.Script(migrations, schema.Views), migrations[len(migrations)-1].Version)
}

// migrate runs the migrations that the schema lacks. A user without the right to change tables can
// use those of the same version.
func migrate(ctx context.Context, conn *sql.Conn) error {
	migrations, err := Migrations()
	if err != nil {
		return err
	}
	latest := len(migrations)
	found, err := version(ctx, conn)
	if err != nil || found >= latest {
		return errors.Join(err, schema.CheckVersion(found, latest))
	}
	for _, statement := range schema.Statements(script(migrations[found:])) {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("create version %d of the tables: %w: let an administrator run the output of gpuledger-archive schema mysql", latest, err)
		}
	}
	return nil
}

// noTable is the number of the error for a table that does not exist.
const noTable = 1146

// version returns the version of the schema, 0 without tables.
func version(ctx context.Context, conn *sql.Conn) (found int, err error) {
	err = conn.QueryRowContext(ctx, "select coalesce(max(version), 0) from schema_version").Scan(&found)
	if e := new(mysql.MySQLError); errors.As(err, &e) && e.Number == noTable {
		return 0, nil
	}
	return found, err
}
