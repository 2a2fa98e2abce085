//go:build e2e

package archive_test

import (
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/test/program"
)

func startMariaDB(t *testing.T) *server {
	t.Helper()
	if _, err := exec.LookPath("mariadb-install-db"); err != nil {
		t.Fatal("MariaDB is missing: install the Debian packages mariadb-server-core and mariadb-client-core")
	}
	dir, attr := unprivileged(t, "nobody")
	data, socket := filepath.Join(dir, "data"), filepath.Join(dir, "socket")
	command := func(name string, args ...string) *exec.Cmd {
		c := exec.Command(name, append([]string{"--no-defaults", "--datadir=" + data, "--debug-no-sync", "--innodb-log-file-size=8M"}, args...)...)
		c.Dir, c.SysProcAttr = dir, attr
		return c
	}
	install(t, data, command("mariadb-install-db", "--auth-root-authentication-method=normal", "--skip-test-db"))
	address := program.AddressFor(t)
	_, port, _ := strings.Cut(address, ":")
	open := func(t *testing.T, name string) *sql.DB {
		t.Helper()
		db, err := sql.Open("mysql", "root@tcp("+address+")/"+name+"?parseTime=true&multiStatements=true")
		check(t, err)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	s := &server{
		command: func() *exec.Cmd {
			return command("/usr/sbin/mariadbd", "--bind-address=127.0.0.1", "--port="+port, "--socket="+socket,
				"--default-time-zone=-05:00", "--character-set-server=latin1")
		},
		ready: open(t, "").PingContext,
		create: func(t *testing.T, name string) (string, query) {
			t.Helper()
			_, err := open(t, "").ExecContext(t.Context(), "create database "+name)
			check(t, err)
			return "mysql://root@" + address + "/" + name, queries(open(t, name))
		},
		elsewhere: func(t *testing.T, name string) query { return queries(open(t, name)) }, // time zone of the server
		script: func(t *testing.T, name, script string) {
			t.Helper()
			c := exec.Command("mariadb", "--no-defaults", "--socket="+socket, "--user=root", name)
			c.Stdin = strings.NewReader(script)
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("mariadb: %v\n%s", err, out)
			}
		},
		stranger: func(t *testing.T, name string) string {
			t.Helper()
			_, err := open(t, "").ExecContext(t.Context(), `create user if not exists stranger@'127.0.0.1' identified by 'secret';
				grant select, insert, delete on `+name+`.* to stranger@'127.0.0.1'`)
			check(t, err)
			return "mysql://stranger:secret@" + address + "/" + name
		},
	}
	s.start(t)
	return s
}

func queries(db *sql.DB) query {
	return func(ctx context.Context, text string) (lines []string, err error) {
		found, err := db.QueryContext(ctx, text)
		if err != nil {
			return nil, err
		}
		defer found.Close()
		types, err := found.ColumnTypes()
		if err != nil {
			return nil, err
		}
		values, targets := make([]any, len(types)), make([]any, len(types))
		for i := range values {
			targets[i] = &values[i]
		}
		for found.Next() {
			if err := found.Scan(targets...); err != nil {
				return nil, err
			}
			lines = append(lines, line(values, func(i int) bool { return types[i].DatabaseTypeName() == "DATE" }))
		}
		return lines, found.Err()
	}
}

func TestPasswordFile(t *testing.T) {
	t.Parallel()
	server := startMariaDB(t)
	server.create(t, "gpuledger")
	url := strings.Replace(server.stranger(t, "gpuledger"), ":secret", "", 1)
	file := filepath.Join(t.TempDir(), "password")
	for password, want := range map[string]string{"secret\n": "CREATE command denied", "wrong": "Access denied"} {
		check(t, os.WriteFile(file, []byte(password), 0o600))
		if _, err := database.MySQL.Open(t.Context(), url, file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error with the password %q is %v, want %q", password, err, want)
		}
	}
}
