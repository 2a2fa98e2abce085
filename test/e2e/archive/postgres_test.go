//go:build e2e

package archive_test

import (
	"context"
	"database/sql"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/gpuledger/gpuledger/test/program"
)

func startPostgres(t *testing.T) *server {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	check(t, err)
	if len(found) == 0 {
		t.Fatal("PostgreSQL is missing: install the Debian package postgresql")
	}
	dir, attr := unprivileged(t, "postgres")
	command := func(name string, args ...string) *exec.Cmd {
		c := exec.Command(filepath.Join(filepath.Dir(found[len(found)-1]), name), args...)
		c.Dir, c.SysProcAttr = dir, attr
		return c
	}
	data := filepath.Join(dir, "data")
	install(t, data, command("initdb", "--pgdata="+data, "--username=archive", "--auth=trust", "--no-sync"))
	address := program.AddressFor(t)
	_, port, _ := strings.Cut(address, ":")
	url := func(user, name string) string {
		return "postgres://" + user + "@" + address + "/" + name + "?sslmode=disable"
	}
	// A connection that was used before may be broken, because some tests restart the server.
	ping := stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return true })
	open := func(t *testing.T, name, settings string) *sql.DB {
		t.Helper()
		config, err := pgx.ParseConfig(url("archive", name) + settings)
		check(t, err)
		db := stdlib.OpenDB(*config, ping)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	execute := func(t *testing.T, name, text string) {
		t.Helper()
		_, err := open(t, name, "").ExecContext(t.Context(), text)
		check(t, err)
	}
	s := &server{
		command: func() *exec.Cmd {
			return command("postgres", "-D", data, "-h", "127.0.0.1", "-p", port, "-k", dir, "-c", "fsync=off")
		},
		ready: open(t, "postgres", "").PingContext,
		create: func(t *testing.T, name string) (string, query) {
			t.Helper()
			execute(t, "postgres", "create database "+name)
			return url("archive", name), queries(open(t, name, "&search_path=gpuledger&timezone=UTC"))
		},
		elsewhere: func(t *testing.T, name string) query {
			return queries(open(t, name, "&search_path=gpuledger&timezone=America/New_York"))
		},
		script: func(t *testing.T, name, script string) {
			t.Helper()
			c := exec.Command("psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", url("archive", name))
			c.Stdin = strings.NewReader(script)
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("psql: %v\n%s", err, out)
			}
		},
		stranger: func(t *testing.T, name string) string {
			t.Helper()
			execute(t, name, `do $$ begin
				if to_regrole('stranger') is null then create role stranger login; end if;
				if to_regnamespace('gpuledger') is not null then
					grant usage on schema gpuledger to stranger;
					grant select, insert, delete on all tables in schema gpuledger to stranger;
				end if;
			end $$`)
			return url("stranger", name)
		},
	}
	s.start(t)
	return s
}
