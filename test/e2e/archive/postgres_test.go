//go:build e2e

package archive_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

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
	if out, err := command("initdb", "--pgdata="+data, "--username=archive", "--auth=trust", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	address := program.AddressFor(t)
	_, port, _ := strings.Cut(address, ":")
	url := func(user, name string) string {
		return "postgres://" + user + "@" + address + "/" + name + "?sslmode=disable"
	}
	execute := func(t *testing.T, name, text string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), url("archive", name))
		check(t, err)
		defer conn.Close(context.WithoutCancel(t.Context()))
		_, err = conn.Exec(t.Context(), text)
		check(t, err)
	}
	s := &server{
		command: func() *exec.Cmd {
			return command("postgres", "-D", data, "-h", "127.0.0.1", "-p", port, "-k", dir, "-c", "fsync=off")
		},
		ready: func(ctx context.Context) error {
			conn, err := pgx.Connect(ctx, url("archive", "postgres"))
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		},
		create: func(t *testing.T, name string) (string, query) {
			t.Helper()
			execute(t, "postgres", "create database "+name)
			return url("archive", name), func(ctx context.Context, text string) ([]string, error) {
				return queryPostgres(ctx, url("archive", name)+"&search_path=gpuledger&timezone=UTC", text)
			}
		},
		elsewhere: func(name string) query {
			return func(ctx context.Context, text string) ([]string, error) {
				return queryPostgres(ctx, url("archive", name)+"&search_path=gpuledger&timezone=America/New_York", text)
			}
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

func queryPostgres(ctx context.Context, url, text string) ([]string, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	found, err := conn.Query(ctx, text, pgx.QueryResultFormats{pgx.TextFormatCode})
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, func(row pgx.CollectableRow) (string, error) {
		values, err := row.Values()
		if err != nil {
			return "", err
		}
		types := row.FieldDescriptions()
		for i := range values {
			if types[i].DataTypeOID == pgtype.NumericOID && values[i] != nil {
				values[i] = row.RawValues()[i]
			}
		}
		return line(values, func(i int) bool { return types[i].DataTypeOID == pgtype.DateOID }), nil
	})
}
