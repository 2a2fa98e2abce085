package database

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// views contains statements that create the views, in the MySQL dialect. They can be executed repeatedly.
//
//go:embed views.sql
var views string

// dateOf matches the date of a time in the views. jsonValue and jsonPart match two functions that only MySQL has. They
// return a JSON value as text or as JSON.
var (
	dateOf    = regexp.MustCompile(`\bdate\((\w+)\)`)
	jsonValue = regexp.MustCompile(`json_value\(([a-z.]+), '\$\.(\w+)'\)`)
	jsonPart  = regexp.MustCompile(`json_extract\(([a-z.]+), '\$\.(\w+)'\)`)
)

//go:embed migrations
var files embed.FS

// Migration updates the schema to a version. Executing it again has no effect.
type Migration struct {
	Version int
	SQL     string
}

// Migrations returns the migrations of the schema, in order.
func (d *Dialect) Migrations() ([]Migration, error) {
	all, err := load(files, "migrations/"+d.Name)
	for i := range all {
		all[i].SQL = addition.ReplaceAllStringFunc(all[i].SQL, d.add)
	}
	return all, err
}

// In all migrations, this text precedes each column that is added.
const addMissing = "add column if not exists "

var addition = regexp.MustCompile(`(?m)^alter table (\w+(?:, \w+)*)(\s+)(` + addMissing + `[^;]+);\n`)

// add translates a statement that matches addition. The result has one or more statements for each table.
func (d *Dialect) add(statement string) string {
	parts := addition.FindStringSubmatch(statement)
	var b strings.Builder
	for name := range strings.SplitSeq(parts[1], ", ") {
		b.WriteString(d.addColumns(name, parts[2], parts[3]))
	}
	return b.String()
}

// load reads files such as 001_tables.sql. The numbers must begin with 1 and have no gaps.
func load(files fs.FS, folder string) ([]Migration, error) {
	names, err := fs.Glob(files, folder+"/*.sql")
	if err != nil {
		return nil, err
	}
	var all []Migration
	for i, name := range names {
		if !strings.HasPrefix(path.Base(name), fmt.Sprintf("%03d_", i+1)) {
			return nil, fmt.Errorf("%s is not migration %d", name, i+1)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		all = append(all, Migration{i + 1, string(text)})
	}
	return all, nil
}

func join(migrations []Migration, statements string) string {
	var b strings.Builder
	for _, m := range migrations {
		fmt.Fprintf(&b, "-- Version %d.\n\n%s\n", m.Version, m.SQL)
	}
	return b.String() + statements
}

// split splits a script at semicolons that end a line.
func split(script string) []string {
	var all []string
	for s := range strings.SplitSeq(script, ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			all = append(all, s)
		}
	}
	return all
}

// script returns a script that runs migrations, fills the daily sums and creates the views. The script sets the version
// last. After an interruption, it therefore runs again.
func (d *Dialect) script(migrations []Migration) string {
	version := migrations[len(migrations)-1].Version
	return d.prelude + join(migrations, d.fill()+"\n"+d.views(views)) + fmt.Sprintf("\n%s schema_version values (%d)%s;\n", d.skip.into, version, d.skip.end)
}

// Schema returns a script that creates or updates the tables. If the dialect has partitions, it also creates partitions
// for the months in [from, until). The script can run repeatedly.
func (d *Dialect) Schema(from, until time.Time) (string, error) {
	migrations, err := d.Migrations()
	if err != nil {
		return "", err
	}
	return d.print(d.script(migrations), from, until), nil
}

// If the schema has the current version, the role needs no right to change tables.
func (d *Database) migrate(ctx context.Context) error {
	migrations, err := d.dialect.Migrations()
	if err != nil {
		return err
	}
	latest := len(migrations)
	found, err := d.version(ctx)
	if err != nil || found >= latest {
		return errors.Join(err, checkVersion(found, latest))
	}
	err = d.transaction(ctx, func(t *transaction) error {
		found, err := t.version(ctx)
		if err != nil || found >= latest {
			return err
		}
		for _, statement := range d.dialect.statements(d.dialect.script(migrations[found:])) {
			if _, err := t.on.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}, lock{})
	if err != nil {
		return fmt.Errorf("create version %d of %s: %w: let an administrator run the output of gpuledger-archive %s", latest, d.dialect.tables, err, d.dialect.command)
	}
	return nil
}

func checkVersion(found, latest int) error {
	if found > latest {
		return fmt.Errorf("the schema has version %d, this program supports %d: install a newer gpuledger-archive", found, latest)
	}
	return nil
}

// version returns 0 if there are no tables.
func (s session) version(ctx context.Context) (int, error) {
	if known, err := s.Columns(ctx); err != nil || !known["schema_version.version"] {
		return 0, err
	}
	version, err := s.value(ctx, SQL("select coalesce(max(version), 0) from {schema_version}"), table.Int)
	return int(version.Int), err
}
