package database

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

var (
	created  = regexp.MustCompile(`(?s)create table if not exists (\w+) \((.*?)\n\)`)
	altered  = regexp.MustCompile(`(?s)alter table (\w+)\s(.*?);\n`)
	modified = regexp.MustCompile(`modify (\w+) (.*?)(?:,\n|$)`)
	added    = regexp.MustCompile(`add column (?:if not exists )?(.*?)(?: after \w+)?(?:,?\n|$)`)
)

func columns(t *testing.T, migrations []Migration, err error) map[string][]string {
	t.Helper()
	check(t, err)
	all := make(map[string][]string)
	for _, m := range migrations {
		for _, found := range created.FindAllStringSubmatch(m.SQL, -1) {
			for line := range strings.Lines(strings.TrimSpace(found[2])) {
				line = strings.Trim(line, " ,\n")
				if !strings.HasPrefix(line, "primary key") && !strings.HasPrefix(line, "index") {
					all[found[1]] = append(all[found[1]], line)
				}
			}
		}
		for _, found := range altered.FindAllStringSubmatch(m.SQL, -1) {
			for _, column := range modified.FindAllStringSubmatch(found[2], -1) {
				i := slices.IndexFunc(all[found[1]], func(line string) bool { return strings.HasPrefix(line, column[1]+" ") })
				all[found[1]][i] = column[1] + " " + column[2]
			}
			for _, column := range added.FindAllStringSubmatch(found[2], -1) {
				all[found[1]] = append(all[found[1]], column[1])
			}
		}
	}
	return all
}

func TestColumns(t *testing.T) {
	postgresMigrations, postgresErr := Postgres.Migrations()
	mysqlMigrations, mysqlErr := MySQL.Migrations()
	sqliteMigrations, sqliteErr := SQLite.Migrations()
	tests := []struct {
		name  string
		found map[string][]string
		types map[table.Type][]string
	}{
		{
			"postgres", columns(t, postgresMigrations, postgresErr),
			map[table.Type][]string{table.Text: {"text not null", "text not null default ''"}, table.Int: {"bigint not null", "bigint not null default 0"}, table.OptionalInt: {"bigint"}, table.Time: {"timestamptz", "timestamptz not null"}},
		},
		{
			"mysql", columns(t, mysqlMigrations, mysqlErr),
			map[table.Type][]string{table.Text: {"varchar(256) not null", "varchar(255) not null", "varchar(1024) not null", "text not null", "mediumtext not null"}, table.Int: {"bigint not null"}, table.OptionalInt: {"bigint"}, table.Time: {"datetime(3)", "datetime(3) not null"}},
		},
		{
			"sqlite", columns(t, sqliteMigrations, sqliteErr),
			map[table.Type][]string{table.Text: {"text not null", "text not null default ''"}, table.Int: {"bigint not null", "bigint not null default 0"}, table.OptionalInt: {"bigint"}, table.Time: {"text", "text not null"}},
		},
	}
	for _, tt := range tests {
		for _, table := range append(slices.Clone(table.All), table.Chain) {
			names := []string{}
			for _, column := range tt.found[table.Name] {
				name, kind, _ := strings.Cut(column, " ")
				if name == "n" {
					continue // MySQL's row number
				}
				names = append(names, name)
				if kind == "varchar(255) not null" && !short(table.Name) {
					t.Errorf("%s: column %s.%s is too short for label values", tt.name, table.Name, name)
				}
				if i := slices.Index(table.Names(), name); i >= 0 && !slices.Contains(tt.types[table.Columns[i].Type], kind) {
					t.Errorf("%s: column %s.%s is %q, want one of %q", tt.name, table.Name, name, kind, tt.types[table.Columns[i].Type])
				}
			}
			if diff := cmp.Diff(table.Names(), names); diff != "" {
				t.Errorf("%s: columns of %s (-table +migrations):\n%s", tt.name, table.Name, diff)
			}
		}
	}
}

// short reports whether the table limits strings in its key to 255 bytes.
func short(name string) bool {
	return slices.ContainsFunc(table.Appended, func(of table.Table) bool { return of.Name == name })
}

func TestLoad(t *testing.T) {
	files := fstest.MapFS{"m/002_b.sql": {Data: []byte("b;\n")}, "m/001_a.sql": {Data: []byte("-- A.\na;\na2;\n")}}
	got, err := load(files, "m")
	if diff := cmp.Diff([]Migration{{Version: 1, SQL: "-- A.\na;\na2;\n"}, {Version: 2, SQL: "b;\n"}}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"-- Version 1.\n\n-- A.\na", "a2", "-- Version 2.\n\nb", "c"}, split(join(got, "c;\n"))); diff != "" {
		t.Errorf("statements (-want +got):\n%s", diff)
	}
	delete(files, "m/001_a.sql")
	if _, err := load(files, "m"); err == nil || !strings.Contains(err.Error(), "002_b.sql is not migration 1") {
		t.Errorf("error for a gap is %v", err)
	}
}

func TestAddition(t *testing.T) {
	for d, want := range map[*Dialect]string{
		Postgres: "alter table a\n  add column if not exists x text,\n  add column if not exists y int;\nalter table b\n  add column if not exists x text,\n  add column if not exists y int;\n",
		SQLite:   "alter table a add column x text;\nalter table a add column y int;\nalter table b add column x text;\nalter table b add column y int;\n",
	} {
		if got := addition.ReplaceAllStringFunc("alter table a, b\n  add column if not exists x text,\n  add column if not exists y int;\n", d.add); got != want {
			t.Errorf("%s:\n%s", d.Name, got)
		}
	}
	const guarded = `
set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'a' and column_name = 'y') > 0, 'do 0', '
alter table a add column x text after w, add column y int after x
');
prepare change_a from @change;
execute change_a;
deallocate prepare change_a;
`
	if got := addition.ReplaceAllStringFunc("alter table a add column if not exists x text after w, add column if not exists y int after x;\n", MySQL.add); got != guarded {
		t.Errorf("mysql:\n%s", got)
	}
}
