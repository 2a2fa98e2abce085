//go:build e2e

package archive_test

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/test/program"
)

// database starts a PostgreSQL and returns its URL. The server refuses to run as root, so it runs
// as the user of its package then.
func database(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	check(t, err)
	if len(found) == 0 {
		t.Fatal("PostgreSQL is missing: install the Debian package postgresql")
	}
	bin, dir := filepath.Dir(found[len(found)-1]), t.TempDir()
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		owner, err := user.Lookup("postgres")
		check(t, err)
		uid, _ := strconv.Atoi(owner.Uid)
		gid, _ := strconv.Atoi(owner.Gid)
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		check(t, os.Chown(dir, uid, gid))
		check(t, os.Chmod(filepath.Dir(dir), 0o755))
	}
	command := func(name string, args ...string) *exec.Cmd {
		c := exec.Command(filepath.Join(bin, name), args...)
		c.Dir, c.SysProcAttr = dir, attr
		return c
	}
	data := filepath.Join(dir, "data")
	if out, err := command("initdb", "--pgdata="+data, "--username=archive", "--auth=trust", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	address := program.AddressFor(t)
	_, port, _ := strings.Cut(address, ":")
	server := command("postgres", "-D", data, "-h", "127.0.0.1", "-p", port, "-k", dir, "-c", "fsync=off")
	log := &strings.Builder{}
	server.Stdout, server.Stderr = log, log
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // the server is killed when its thread ends
		started <- server.Start()
		_ = server.Wait()
		close(ended)
	}()
	check(t, <-started)
	t.Cleanup(func() {
		_ = server.Process.Signal(os.Interrupt)
		<-ended
		if t.Failed() {
			t.Logf("the log of PostgreSQL:\n%s", log)
		}
	})
	url := "postgres://archive@" + address + "/postgres?sslmode=disable"
	for deadline := time.Now().Add(time.Minute); ; <-time.After(100 * time.Millisecond) {
		conn, err := pgx.Connect(t.Context(), url)
		if err == nil {
			check(t, conn.Close(t.Context()))
			return url
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// query returns the rows of a query as text.
func query(t *testing.T, url, sql string) (lines []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	check(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	found, err := conn.Query(t.Context(), "select row::text from ("+sql+") as row")
	check(t, err)
	lines, err = pgx.CollectRows(found, pgx.RowTo[string])
	check(t, err)
	return lines
}

// documented returns the statements of docs/archive.md.
func documented(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/archive.md")
	check(t, err)
	_, block, found := strings.Cut(string(text), "```sql\n")
	block, _, _ = strings.Cut(block, "```")
	statements := strings.Split(strings.TrimSpace(block), ";\n")
	if !found || len(statements) < 5 {
		t.Fatalf("docs/archive.md has %d statements", len(statements))
	}
	return statements
}

// TestPostgres checks that a database has the same hours as a folder, also after kills at random
// moments, and what its views return.
func TestPostgres(t *testing.T) {
	s := foldtest.NewStore()
	fleet := foldtest.NewFleet(s, began, 6, 4, "cluster", "east")
	fleet.Run(hours * 60)
	server := serve(t, program.OpenFor(t), "store", s, "")
	binary, url, folder := binary(t), database(t), t.TempDir()
	for range *kills {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(500))*time.Millisecond)
		_, _ = once(ctx, binary, folder, "--store.url="+server.URL(), "--postgres.url="+url, "--again")
		cancel()
	}
	if out, err := once(t.Context(), binary, folder, "--store.url="+server.URL(), "--postgres.url="+url); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var digests []string
	for _, row := range rows(t, folder, "hours") {
		digests = append(digests, "("+row["digest"]+","+row["energy_mj"]+")")
	}
	if diff := cmp.Diff(digests, query(t, url, "select digest, energy_mj from gpuledger.hours order by hour")); diff != "" {
		t.Errorf("hours (-folder +database):\n%s", diff)
	}
	var boards []string
	for _, n := range fleet.Nodes {
		boards = append(boards, "("+n.Name+","+strconv.FormatInt(n.Board, 10)+")")
	}
	for _, sql := range []string{
		"select node, sum(energy_mj) from gpuledger.gpu_hours group by node order by node",
		"select node, sum(energy_mj) from gpuledger.charges group by node order by node",
		"select node, sum(energy_mj) from gpuledger.placements group by node order by node",
	} {
		if diff := cmp.Diff(boards, query(t, url, sql)); diff != "" {
			t.Errorf("%s (-scraped +filed):\n%s", sql, diff)
		}
	}
	for sql, want := range map[string]string{
		"select count(*) from gpuledger.placements":                                  "(4)",
		"select distinct gpu from gpuledger.serials where node = 'n1'":               "(S-n1)",
		"select sum(energy_mj) from gpuledger.days":                                  strings.Join(query(t, url, "select sum(energy_mj) from gpuledger.hours"), ""),
		"select count(distinct gpu) from gpuledger.serials group by chassis limit 1": "(1)",
	} {
		if got := strings.Join(query(t, url, sql), " "); got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
	for _, sql := range documented(t) {
		conn, err := pgx.Connect(t.Context(), url)
		check(t, err)
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Errorf("%v in the documented statement\n%s", err, sql)
		}
		check(t, conn.Close(t.Context()))
	}
	if out, err := once(t.Context(), binary, folder, "--store.url="+server.URL(), "--postgres.url="+strings.Replace(url, "archive@", "stranger@", 1), "--again"); err == nil || !strings.Contains(string(out), "--postgres.url") {
		t.Errorf("with another user: %v\n%s", err, out)
	}
}
