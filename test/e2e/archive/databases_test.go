//go:build e2e

package archive_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

type databases struct {
	name, flag string
	start      func(t *testing.T) *server
	dialect    *database.Dialect
}

var kinds = []databases{
	{"PostgreSQL", "--postgres.url", startPostgres, database.Postgres},
	{"MariaDB", "--mysql.url", startMariaDB, database.MySQL},
}

func (k databases) sink(ctx context.Context, url string) (closer, error) {
	return k.dialect.Open(ctx, url, "")
}

type closer interface {
	sinktest.Chained
	Close() error
}

type server struct {
	*exec.Cmd
	ended   <-chan struct{}
	command func() *exec.Cmd
	ready   func(ctx context.Context) error
	// create creates an empty database. It returns the URL for the archive's flag, and a function for queries. The
	// queries need not name the schema of tables.
	create func(t *testing.T, name string) (url string, db query)
	// elsewhere returns a function for queries in a session whose time zone is not UTC.
	elsewhere func(t *testing.T, name string) query
	script    func(t *testing.T, name, script string)
	// stranger creates a user who may read and write the rows of a database, but not change its tables.
	stranger func(t *testing.T, name string) string
	count    int // number of databases that unchanged has created
}

// unchanged opens a sink as a user who cannot change tables. It returns the sink, the URL of this user, and a query for
// the database.
func (k databases) unchanged(t *testing.T, server *server) (sink closer, url string, db query) {
	t.Helper()
	server.count++
	name := "unchanged" + strconv.Itoa(server.count)
	admin, db := server.create(t, name)
	owner, err := k.sink(t.Context(), admin)
	check(t, err)
	check(t, owner.Close())
	url = server.stranger(t, name)
	sink, err = k.sink(t.Context(), url)
	check(t, err)
	t.Cleanup(func() { check(t, sink.Close()) })
	return sink, url, db
}

func (s *server) start(t *testing.T) {
	t.Helper()
	s.Cmd = s.command()
	log := &strings.Builder{}
	s.Stdout, s.Stderr = log, log
	started, ended := make(chan error), make(chan struct{})
	go func(c *exec.Cmd) {
		runtime.LockOSThread() // the server is killed when its thread ends
		started <- c.Start()
		_ = c.Wait()
		close(ended)
	}(s.Cmd)
	check(t, <-started)
	s.ended = ended
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Logf("log of the database:\n%s", log)
		}
	})
	await(t, time.Minute, func() error { return s.ready(t.Context()) })
}

func (s *server) stop() {
	_ = s.Process.Kill()
	<-s.ended
}

// Database servers refuse to run as root. Therefore unprivileged returns a folder, and the attributes that start a
// program as another user.
func unprivileged(t *testing.T, name string) (dir string, attr *syscall.SysProcAttr) {
	t.Helper()
	dir = t.TempDir()
	attr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		owner, err := user.Lookup(name)
		check(t, err)
		uid, _ := strconv.Atoi(owner.Uid)
		gid, _ := strconv.Atoi(owner.Gid)
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		check(t, os.Chown(dir, uid, gid))
		check(t, os.Chmod(filepath.Dir(dir), 0o755))
	}
	return dir, attr
}

// templates contains the data directories of new servers. TestMain creates and removes it.
var templates struct {
	sync.Mutex
	dir string
}

// install creates the data directory of a server with the given command. Later calls with this command copy the
// directory of the first call, because the command takes seconds.
func install(t *testing.T, data string, command *exec.Cmd) {
	t.Helper()
	templates.Lock()
	defer templates.Unlock()
	template := filepath.Join(templates.dir, filepath.Base(command.Path))
	copied := exec.Command("cp", "--archive", template, data)
	if _, err := os.Stat(template); err != nil {
		output(t, command)
		copied = exec.Command("cp", "--archive", data, template)
	}
	output(t, copied)
}

func output(t *testing.T, command *exec.Cmd) {
	t.Helper()
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command.Args, err, out)
	}
}

type query func(ctx context.Context, text string) ([]string, error)

func (q query) rows(t *testing.T, text string) []string {
	t.Helper()
	lines, err := q(t.Context(), text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if len(lines) == 0 {
		return nil
	}
	return lines
}

// line omits the seconds of times.
func line(values []any, isDate func(i int) bool) string {
	texts := make([]string, len(values))
	for i, value := range values {
		switch v := value.(type) {
		case nil:
			texts[i] = "-"
		case bool:
			texts[i] = map[bool]string{false: "0", true: "1"}[v]
		case []byte:
			texts[i] = string(v)
		case time.Time:
			texts[i] = v.UTC().Format("2006-01-02 15:04")
			if isDate(i) {
				texts[i] = v.Format(time.DateOnly)
			}
		default:
			texts[i] = fmt.Sprint(v)
		}
	}
	return strings.Join(texts, " | ")
}

// TestDatabases checks that databases contain the same hours as a folder, even if the archive is killed at random
// times. A database that was down must contain all hours in the end.
func TestDatabases(t *testing.T) {
	t.Parallel()
	s := foldtest.NewStore()
	fleet := foldtest.NewFleet(s, began, 6, 4, "cluster", "east")
	fleet.Run(hours * 60)
	store := "--store.url=" + simulated(t, s)
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			server := kind.start(t)
			url, db := server.create(t, "gpuledger")
			folder := t.TempDir()
			kill(t, func() *exec.Cmd {
				whole(t, db)
				return command(t.Context(), folder, store, kind.flag+"="+url, "--again")
			})
			whole(t, db)
			server.stop()
			if out, err := once(t.Context(), folder, store, kind.flag+"="+url); err == nil || !strings.Contains(string(out), kind.flag) {
				t.Errorf("without the server: %v\n%s", err, out)
			}
			server.start(t)
			fileHours(t, folder, store, kind.flag+"="+url)
			equal(t, folder, db)
			boards(t, fleet, db)
			intervals(t, kind, fleet, db)
			file := func(args ...string) (string, error) {
				out, err := once(t.Context(), folder, append(args, store)...)
				return string(out), err
			}
			testRights(t, kind, server, folder, file)
			testUpgrade(t, kind, server, file)
		})
	}
}

// whole checks that every hour in the table hours is complete. No table may have rows of an hour that is not in this
// table.
func whole(t *testing.T, db query) {
	t.Helper()
	lines, err := db(t.Context(), `select filed.hour, filed.gpus, g.n, filed.charges, c.n, filed.energy_mj, c.energy_mj from hours as filed
		left join (select hour, count(*) as n from gpu_hours group by hour) as g on g.hour = filed.hour
		left join (select hour, count(*) as n, sum(energy_mj) as energy_mj from charges group by hour) as c on c.hour = filed.hour
		where filed.gpus <> coalesce(g.n, 0) or filed.charges <> coalesce(c.n, 0) or filed.energy_mj <> coalesce(c.energy_mj, 0)
		union all select hour, 0, 0, 0, 0, 0, 0 from charges where hour not in (select hour from hours)`)
	if err == nil && len(lines) > 0 { // the query fails until the tables are created
		t.Errorf("incomplete hours:\n%s", strings.Join(lines, "\n"))
	}
}

func equal(t *testing.T, folder string, db query) {
	t.Helper()
	var want []string
	for _, row := range rows(t, folder, "hours") {
		want = append(want, row["digest"]+" | "+row["energy_mj"]+" | "+row["gpus"]+" | "+row["charges"])
	}
	if len(want) != hours {
		t.Errorf("%d hours are filed, want %d", len(want), hours)
	}
	if diff := cmp.Diff(want, db.rows(t, "select digest, energy_mj, gpus, charges from hours order by hour")); diff != "" {
		t.Errorf("hours (-folder +database):\n%s", diff)
	}
	for _, table := range []string{"gpu_hours", "charges", "pods", "workloads"} {
		want := strconv.Itoa(len(rows(t, folder, table)))
		if got := strings.Join(db.rows(t, "select count(*) from "+table), ""); got != want {
			t.Errorf("%s rows of %s, want %s", got, table, want)
		}
	}
}

func boards(t *testing.T, fleet *foldtest.Fleet, db query) {
	t.Helper()
	var want []string
	total := int64(0)
	for _, n := range fleet.Nodes {
		want = append(want, n.Name+" | "+strconv.FormatInt(n.Board.Energy, 10))
		total += n.Board.Energy
	}
	for _, from := range []string{"gpu_hours", "charges", "billed", "placements"} {
		text := "select node, sum(energy_mj) from " + from + " group by node order by node"
		if diff := cmp.Diff(want, db.rows(t, text)); diff != "" {
			t.Errorf("%s (-scraped +filed):\n%s", text, diff)
		}
	}
	for _, text := range []string{"select sum(energy_mj) from statements", "select sum(energy_mj) from hours"} {
		if diff := cmp.Diff([]string{strconv.FormatInt(total, 10)}, db.rows(t, text)); diff != "" {
			t.Errorf("%s (-scraped +filed):\n%s", text, diff)
		}
	}
}

// intervals compares the times at which pods and units used GPUs with the simulation. A difference of one scrape
// interval is allowed. A pod that used a GPU in the newest hour must not have an end yet.
func intervals(t *testing.T, kind databases, fleet *foldtest.Fleet, db query) {
	t.Helper()
	newest := began.Add((hours - 1) * time.Hour)
	const stamp = "2006-01-02 15:04:05.000000"
	texts := map[string]string{"PostgreSQL": "to_char(%s at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')", "MariaDB": "date_format(%s, '%%Y-%%m-%%d %%H:%%i:%%s.%%f')", "SQLite": "strftime('%%Y-%%m-%%d %%H:%%M:%%f000', %s)"}
	at := func(column string) string { return fmt.Sprintf(texts[kind.name], column) }
	var used, held []string
	for _, n := range fleet.Nodes {
		for uid, s := range n.Pods {
			if s.Ended.IsZero() {
				continue // the pod did not use the GPU
			}
			line := fmt.Sprintf("%s | %s | ", uid, s.Began.Format(stamp))
			used = append(used, line+s.Ended.Format(stamp))
			if _, number, _ := strings.Cut(uid, "-"); unit(number) {
				continue
			}
			if s.Ended.After(newest) {
				held = append(held, line+"-")
			} else {
				held = append(held, line+s.Ended.Format(stamp))
			}
		}
	}
	for text, want := range map[string][]string{
		"select concat(pod_uid, unit), " + at("began") + ", " + at("ended") + " from allocations": used,
		"select uid, " + at("created_at") + ", " + at("end_at") + " from pod_resource":            held,
	} {
		slices.Sort(want)
		got := db.rows(t, text)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" || len(want) < 100 {
			t.Errorf("%s (-simulated +returned):\n%s", text, diff)
		}
	}
}

// unit reports whether the fleet's workload with this number is a unit. Other workloads are pods.
func unit(number string) bool {
	n, _ := strconv.Atoi(number)
	return n%3 == 0
}

func testRights(t *testing.T, kind databases, server *server, folder string, file func(args ...string) (string, error)) {
	t.Helper()
	_, db := server.create(t, "scripted")
	script := schema(t, kind)
	for range 2 {
		server.script(t, "scripted", script)
	}
	if out, err := file(kind.flag + "=" + server.stranger(t, "scripted")); err != nil {
		t.Fatalf("with an existing schema: %v\n%s", err, out)
	}
	equal(t, folder, db)
	server.create(t, "empty")
	if out, err := file(kind.flag + "=" + server.stranger(t, "empty")); err == nil || !strings.Contains(out, "let an administrator run the output of gpuledger-archive schema") {
		t.Errorf("without the right to create tables: %v\n%s", err, out)
	}
}

// TestSinks runs the acceptance tests for sinks, and the tests that need only an empty database.
func TestSinks(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			started := kind.start(t)
			opened := func(t *testing.T) (sinktest.Renamer, sinktest.Rows) {
				sink, _, db := kind.unchanged(t, started)
				return sink, func(of table.Table) [][]string { return appended(t, db, of, times[kind.name]) }
			}
			sinktest.Test(t, func(t *testing.T) sinktest.Sink { sink, _ := opened(t); return sink })
			t.Run("prune", func(t *testing.T) {
				sinktest.TestPrune(t, func(t *testing.T) (sinktest.Pruner, sinktest.Rows) { return opened(t) })
			})
			t.Run("rename", func(t *testing.T) { sinktest.TestRename(t, opened) })
			t.Run("days", func(t *testing.T) { sinktest.TestDays(t, opened, nil) })
			for name, test := range map[string]func(t *testing.T, kind databases, server *server){
				"append": testAppend, "chain": testChain, "concurrent": testConcurrent, "dropped": testDropped, "filed_twice": testFiledTwice, "large": testLarge,
				"order": testOrder, "placements": testPlacements, "prune_concurrent": testPruneConcurrent, "statements": testStatements,
			} {
				t.Run(name, func(t *testing.T) { test(t, kind, started) })
			}
		})
	}
}

func testLarge(t *testing.T, kind databases, server *server) {
	url, db := server.create(t, "large")
	sink, err := kind.sink(t.Context(), url)
	check(t, err)
	h := large()
	check(t, sink.Replace(t.Context(), h))
	check(t, sink.Close())
	want := fmt.Sprintf("%d | %d", len(h.Charges), len(h.Charges))
	if got := strings.Join(db.rows(t, "select count(*), count(distinct pod) from charges where length(pod) = 256 and length(workload_uid) = 256 and team = 'équipe 🎲' and workload_name in ('a', 'A')"), ""); got != want {
		t.Errorf("charges: %s, want %s", got, want)
	}
}

// large returns an hour that needs more than one insert statement. Its strings contain non-Latin characters and have at
// least the maximum length.
func large() *table.Hour {
	h := sinktest.Hour(sinktest.Noon, 7)
	charge := h.Charges[0]
	for _, text := range []*string{
		&charge.Node, &charge.UUID, &charge.Serial, &charge.Namespace, &charge.PodUID, &charge.WorkloadKind, &charge.WorkloadUID, &charge.Reason,
	} {
		*text = strings.Repeat("n", table.MaxText)
	}
	charge.WorkloadUID, charge.Team = strings.Repeat("x", 10*table.MaxText), "équipe 🎲"
	h.Charges = nil
	for i := range 2500 {
		c := charge
		c.Pod, c.WorkloadName = fmt.Sprintf("%0*d", table.MaxText+i%2*1000, i), []string{"a", "A"}[i%2]
		h.Charges = append(h.Charges, c)
	}
	h.Digest = table.Digest(h)
	return h
}

const atOnce = 4

func concurrently(t *testing.T, kind databases, url string, file func(n int, sink closer) error) <-chan error {
	t.Helper()
	failed := make(chan error)
	for n := range atOnce {
		go func() {
			sink, err := kind.sink(t.Context(), url)
			if err == nil {
				err = errors.Join(file(n, sink), sink.Close())
			}
			failed <- err
		}()
	}
	return failed
}

// testConcurrent starts programs that write the same hours, or the same days of different clusters. They must not
// deadlock. They must neither lose nor repeat an hour.
func testConcurrent(t *testing.T, kind databases, server *server) {
	url, db := server.create(t, "concurrent")
	failed := concurrently(t, kind, url, func(n int, sink closer) error {
		for i := range 30 {
			h := sinktest.Hour(sinktest.Noon.Add(time.Duration(i)*time.Hour), int64(i))
			h.Cluster = strconv.Itoa(n % 2) // two programs write each cluster
			if err := sink.Replace(t.Context(), sinktest.Complete(h)); err != nil {
				return err
			}
		}
		return nil
	})
	for range atOnce {
		check(t, <-failed)
	}
	for text, want := range map[string][]string{
		"select cluster, count(*), count(distinct hour), sum(energy_mj) from charges group by cluster order by cluster": {"0 | 30 | 30 | 435", "1 | 30 | 30 | 435"},
		// hours 0 to 11, and hours 12 to 29
		"select cluster, day, sum(hours), sum(energy_mj) from days group by cluster, day order by cluster, day":     {"0 | 2026-03-01 | 12 | 66", "0 | 2026-03-02 | 18 | 369", "1 | 2026-03-01 | 12 | 66", "1 | 2026-03-02 | 18 | 369"},
		"select cluster, day, sum(hours), sum(energy_mj) from gpu_days group by cluster, day order by cluster, day": {"0 | 2026-03-01 | 12 | 66", "0 | 2026-03-02 | 18 | 369", "1 | 2026-03-01 | 12 | 66", "1 | 2026-03-02 | 18 | 369"},
	} {
		if diff := cmp.Diff(want, db.rows(t, text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}
