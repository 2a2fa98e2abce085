//go:build e2e

package archive_test

import (
	_ "embed"
	"flag"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	source "github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
)

var benchCharges = flag.Int("charges", 0, "thousands of charges in TestTables; also the number of hours; 0 skips the test")

const maxAnswer = 2 * time.Second

//go:embed testdata/charges.sql
var manyCharges string

// scanned matches the tables and views in a query plan. dated matches the partition of a month.
var (
	scanned = regexp.MustCompile(`(\w+) on (\w+)`)
	dated   = regexp.MustCompile(`_(20\d\d_\d\d|default)\b`)
)

func documented(t *testing.T) []question {
	t.Helper()
	return questions(t, text(t, page))
}

func partitions(t *testing.T, db query, sql string) (read []string) {
	t.Helper()
	for _, line := range db.rows(t, "explain (analyze, costs off, timing off, summary off) "+strings.TrimSuffix(strings.TrimSpace(sql), ";")) {
		if found := scanned.FindStringSubmatch(line); found != nil && dated.MatchString(found[2]) && !strings.Contains(line, "never executed") {
			read = append(read, found[2])
		}
	}
	slices.Sort(read)
	return slices.Compact(read)
}

// TestPruning checks that a documented question about a month reads only the partitions of this month in PostgreSQL.
func TestPruning(t *testing.T) {
	t.Parallel()
	url, db := startPostgres(t).create(t, "gpuledger")
	sink, err := database.Postgres.Open(t.Context(), url, "")
	check(t, err)
	defer sink.Close()
	fileAll(t, sink)
	for _, month := range []int{-3, -2, -1, 1, 2} {
		h := sinktest.Hour(november.AddDate(0, month, 0), 7)
		h.Cluster, h.Charges[0].GPUTime = "other", 1
		check(t, sink.Replace(t.Context(), h))
	}
	hours := "select sum(energy_mj) from charges"
	all := []string{"charges_2026_08", "charges_2026_09", "charges_2026_10", "charges_2026_11", "charges_2026_12", "charges_2027_01", "charges_default"}
	if diff := cmp.Diff(all, partitions(t, db, hours)); diff != "" {
		t.Fatalf("partitions of %s (-want +got):\n%s", hours, diff)
	}
	for _, q := range documented(t) {
		for _, name := range partitions(t, db, q.sql) {
			if !strings.HasSuffix(name, "_2026_11") {
				t.Errorf("%s reads %s:\n%s", q.title, name, q.sql)
			}
		}
	}
}

// TestInheritedRights checks that a role with rights for a table gets the same rights for the table of its daily sums.
func TestInheritedRights(t *testing.T) {
	t.Parallel()
	server := startPostgres(t)
	_, db := server.create(t, "rights")
	script, err := database.Postgres.Schema(november, november)
	check(t, err)
	before, _, found := strings.Cut(script, "-- Version 13.")
	if !found {
		t.Fatal("the script has no version 13")
	}
	server.script(t, "rights", before+`create role charged;
create role placed;
grant select on charges to charged;
grant select, delete on gpu_hours to placed;
insert into schema_version values (12);
commit;
`)
	server.script(t, "rights", script)
	want := []string{"charged | days | SELECT", "placed | gpu_days | DELETE", "placed | gpu_days | SELECT"}
	text := "select grantee, table_name, privilege_type from information_schema.table_privileges where grantee in ('charged', 'placed') and table_name like '%days' order by 1, 2, 3"
	if diff := cmp.Diff(want, db.rows(t, text)); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
}

// TestOwner checks that the owner of the schema can run the script without the right to create schemas.
func TestOwner(t *testing.T) {
	t.Parallel()
	server := startPostgres(t)
	_, _ = server.create(t, "owned")
	script, err := database.Postgres.Schema(november, november)
	check(t, err)
	server.script(t, "owned", "create role owner;\ncreate schema gpuledger authorization owner;\nset role owner;\n"+script)
}

// TestModelOrder checks a charge in an hour whose model is unknown, on a day with two models. It has the model that is last
// in the order of bytes, also in a database that sorts text by the rules of a language.
func TestModelOrder(t *testing.T) {
	t.Parallel()
	server := startPostgres(t)
	url, _ := server.create(t, "unsorted")
	server.script(t, "unsorted", "create database sorted template template0 locale_provider icu icu_locale 'en-US'")
	url = strings.Replace(url, "/unsorted", "/sorted", 1)
	sink, err := database.Postgres.Open(t.Context(), url, "")
	check(t, err)
	for i, model := range []string{"AMD MI300X", "amd mi210", ""} {
		h := sinktest.Hour(november.Add(time.Duration(i)*time.Hour), 7)
		h.GPUs[0].Model = model
		check(t, sink.Replace(t.Context(), sinktest.Complete(h)))
	}
	check(t, sink.Close())
	in, err := source.OpenDatabase(t.Context(), url, "")
	check(t, err)
	for _, until := range []int{3, 24} {
		st, err := in.Statement(t.Context(), source.Query{From: november, Until: november.Add(time.Duration(until) * time.Hour), By: []string{"model"}})
		check(t, err)
		got := make(map[string]int64)
		for _, c := range st.Charges {
			got[c.Model] = c.Energy
		}
		if diff := cmp.Diff(map[string]int64{"AMD MI300X": 7, "amd mi210": 14}, got); diff != "" {
			t.Errorf("%d hours (-want +got):\n%s", until, diff)
		}
	}
	check(t, in.Close())
}

// TestTables measures how long PostgreSQL takes to answer the documented questions from a large archive, with its
// default settings.
func TestTables(t *testing.T) {
	if *benchCharges == 0 {
		t.Skip("this is a benchmark: make bench-tables runs it")
	}
	server := startPostgres(t)
	url, db := server.create(t, "gpuledger")
	hours := *benchCharges
	from := november.AddDate(0, 1, 0).Add(-time.Duration(hours) * time.Hour)
	script, err := exec.Command(binary(), "schema", "postgres", "--from="+from.Format(time.DateOnly), "--until=2026-12-01").Output()
	check(t, err)
	server.script(t, "gpuledger", string(script))
	start := time.Now()
	server.script(t, "gpuledger", fmt.Sprintf(manyCharges, hours))
	fmt.Printf("made in %.0f s: %s\n", time.Since(start).Seconds(), db.rows(t, "select sum(gpus), sum(charges) from hours")[0])
	start = time.Now()
	sink, err := database.Postgres.Open(t.Context(), url, "")
	check(t, err)
	check(t, sink.Close())
	server.script(t, "gpuledger", "vacuum analyze gpuledger.days, gpuledger.gpu_days")
	fmt.Printf("days added up in %.0f s: %s rows of days, %s of gpu_days\n\n| question | seconds | reads |\n|---|---|---|\n", time.Since(start).Seconds(),
		db.rows(t, "select count(*) from days")[0], db.rows(t, "select count(*) from gpu_days")[0])
	for _, q := range documented(t) {
		fastest := time.Hour
		for range 3 {
			start := time.Now()
			db.rows(t, q.sql)
			fastest = min(fastest, time.Since(start))
		}
		fmt.Printf("| %s | %.2f | %s |\n", q.title, fastest.Seconds(), strings.Join(scans(t, db, q.sql), ", "))
		if fastest > maxAnswer {
			t.Errorf("%s: %s, the limit is %s", q.title, fastest, maxAnswer)
		}
	}
	timeCommands(t, "--books="+url)
}

// timeCommands prints the duration of commands that read three months.
func timeCommands(t *testing.T, books string) {
	t.Helper()
	fmt.Print("\n| command | seconds |\n|---|---|\n")
	for _, command := range []string{
		"statement --month=2026-10 --by=team", "statement --month=2026-10 --by=model,workload", "where 1653924023102", "history 1653924023102", "ran 1653924023102", "ran --workload=train", "moves",
	} {
		args := append(strings.Fields(command), books)
		if !strings.Contains(command, "--month") {
			args = append(args, "--from=2026-09-01T05", "--to=2026-11-27T05")
		}
		start := time.Now()
		out, err := exec.Command(binary(), args...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
		fmt.Printf("| `%s` | %.2f |\n", command, time.Since(start).Seconds())
	}
}

func scans(t *testing.T, db query, sql string) (all []string) {
	t.Helper()
	kind := regexp.MustCompile(`(Index Only|Index|Bitmap Heap|Seq) Scan (?:using \w+ |Backward using \w+ )?on (\w+)`)
	for _, line := range db.rows(t, "explain (analyze, costs off, timing off, summary off) "+strings.TrimSuffix(strings.TrimSpace(sql), ";")) {
		if found := kind.FindStringSubmatch(line); found != nil && !strings.Contains(line, "never executed") && !strings.Contains(line, "Bitmap Index") {
			all = append(all, strings.ToLower(found[1])+" scan of "+dated.ReplaceAllString(found[2], ""))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
