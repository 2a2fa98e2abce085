//go:build e2e

package archive_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	source "github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/event"
)

const statementsByMonth = `select team, namespace, sum(energy_mj), sum(gpu_ms) from (
	select team, namespace, energy_mj, gpu_ms from charges union all select team, namespace, energy_mj, gpu_ms from corrections) as rowwise
	group by team, namespace order by team, namespace`

// testOrder checks that answers from databases do not depend on earlier calls. A test in package books checks all calls
// with SQLite.
func testOrder(t *testing.T, kind databases, server *server) {
	url, _ := server.create(t, "ordered")
	sink, err := kind.sink(t.Context(), url)
	check(t, err)
	for i := range 2 {
		check(t, sink.Replace(t.Context(), sinktest.Hour(sinktest.Noon.Add(time.Duration(i)*time.Hour), int64(i)+1)))
	}
	check(t, sink.Close())
	bookstest.TestOrder(t, func() source.Source {
		opened, err := source.OpenDatabase(t.Context(), url, "")
		check(t, err)
		return opened
	}, source.Query{From: sinktest.Noon, Until: sinktest.Noon.Add(2 * time.Hour)}, 4, 2)
}

// testStatements compares the sums by team and namespace before and after a prune.
func testStatements(t *testing.T, kind databases, server *server) {
	t.Helper()
	url, db := server.create(t, "statements")
	sink, err := kind.sink(t.Context(), url)
	check(t, err)
	defer sink.Close()
	month := table.Month(sinktest.Noon)
	for i := range 30 {
		h := sinktest.Hour(month.Add(time.Duration(i*7)*time.Hour), int64(i)*1_000_003+1)
		h.Charges[0].Team, h.Charges[0].Namespace = fmt.Sprint("team", i%4), fmt.Sprint("ns", i%3)
		check(t, sink.Replace(t.Context(), h))
		if i%5 == 0 {
			next := *h
			c := h.Charges[0]
			c.Energy = -int64(i) / 2
			next.Revision, next.State, next.Digest, next.Corrections = 2, table.Corrected, "other", append(next.Corrections, c)
			check(t, sink.Correct(t.Context(), &next))
		}
	}
	want := db.rows(t, statementsByMonth)
	const view = "select team, namespace, sum(energy_mj), sum(gpu_ms) from statements group by team, namespace order by team, namespace"
	answered := func() (texts []string) {
		opened, err := source.OpenDatabase(t.Context(), url, "")
		check(t, err)
		defer opened.Close()
		st, err := opened.Statement(t.Context(), source.Query{From: month, Until: month.AddDate(0, 1, 0), By: []string{"team", "namespace"}, Sums: true})
		check(t, err)
		for _, c := range st.Charges {
			texts = append(texts, fmt.Sprintf("%s | %s | %d | %d", c.Team, c.Namespace, c.Energy, c.GPUTime))
		}
		return texts
	}
	for _, step := range []string{"before", "after"} {
		if diff := cmp.Diff(want, db.rows(t, view)); diff != "" {
			t.Errorf("statements %s (-charges +view):\n%s", step, diff)
		}
		if diff := cmp.Diff(want, answered()); diff != "" {
			t.Errorf("statements %s (-charges +answered):\n%s", step, diff)
		}
		check(t, sink.Prune(t.Context(), month.AddDate(0, 1, 0), false, func(table.Deleted) {}))
	}
	if got := db.rows(t, "select count(*) from charges"); got[0] != "0" {
		t.Errorf("the database has %s charges after the prune", got)
	}
}

// testDropped deletes the rows of hours before the archive prunes them, as an administrator might do. The archive
// cannot compute the sums of these hours, so it must mark them.
func testDropped(t *testing.T, kind databases, server *server) {
	t.Helper()
	url, db := server.create(t, "dropped")
	sink, err := kind.sink(t.Context(), url)
	check(t, err)
	defer sink.Close()
	check(t, sink.Replace(t.Context(), sinktest.Hour(sinktest.Noon, 7)))
	check(t, sink.Replace(t.Context(), sinktest.Hour(sinktest.Noon.AddDate(0, 1, 0), 5)))
	for _, of := range table.Data {
		drop := "drop table gpuledger." + of.Name + "_2026_03;"
		if kind.name == "MariaDB" {
			drop = "delete from " + of.Name + " where hour < '2026-04-01';"
		}
		server.script(t, "dropped", drop)
	}
	check(t, sink.Prune(t.Context(), sinktest.Noon.AddDate(0, 2, -sinktest.Noon.Day()+1).Truncate(24*time.Hour), false, func(table.Deleted) {}))
	if diff := cmp.Diff([]string{"pruned | 7", "pruned | 5"}, db.rows(t, "select state, energy_mj from hours order by hour")); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"12 | 5"}, db.rows(t, "select hours, energy_mj from monthly_charges")); diff != "" {
		t.Errorf("sums (-want +got):\n%s", diff)
	}
	opened, err := source.OpenDatabase(t.Context(), url, "")
	check(t, err)
	defer opened.Close()
	var lost []bool
	st, err := opened.Statement(t.Context(), source.Query{From: sinktest.Noon, Until: sinktest.Noon.AddDate(0, 2, 0)})
	check(t, err)
	for _, h := range st.Hours {
		lost = append(lost, h.Lost)
	}
	if diff := cmp.Diff([]bool{true, false}, lost); diff != "" {
		t.Errorf("lost hours (-want +got):\n%s", diff)
	}
}

// TestPartitions checks that events from many months create only a few partitions in PostgreSQL. If a partition for a
// month is created later, the rows of the month must move into it.
func TestPartitions(t *testing.T) {
	t.Parallel()
	server := startPostgres(t)
	url, db := server.create(t, "partitions")
	owner, err := database.Postgres.Open(t.Context(), url, "")
	check(t, err)
	defer owner.Close()
	var events []table.Event
	for i := range 1020 { // one event per month, starting in 2015
		at := time.Date(2015, time.Month(1+i), 3, 0, 0, 0, 0, time.UTC)
		events = append(events, table.Event{Event: event.Event{Kind: "phase", ID: fmt.Sprint(i), At: at, PodUID: "u"}, Hour: at})
	}
	check(t, owner.Append(t.Context(), table.Events, table.EventRows(table.Events, "east", events)))
	const count = "select count(*) from pg_inherits where inhparent = 'gpuledger.events'::regclass"
	if got := db.rows(t, count); got[0] != "3" {
		t.Errorf("%s partitions, want the default one and two", got)
	}
	began := time.Now()
	db.rows(t, "explain select * from gpu_pods_event")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("a query is planned in %v", took)
	}
	hour := time.Date(2016, 5, 3, 0, 0, 0, 0, time.UTC)
	const inDefault = "select count(*) from events_default where hour >= '2016-05-01' and hour < '2016-06-01'"
	if got := db.rows(t, inDefault); got[0] != "1" {
		t.Errorf("%s events of May 2016 in the default partition", got)
	}
	stranger, err := database.Postgres.Open(t.Context(), server.stranger(t, "partitions"), "")
	check(t, err)
	defer stranger.Close()
	check(t, stranger.Replace(t.Context(), sinktest.Hour(hour, 7))) // this user cannot create partitions
	if got := db.rows(t, "select count(*) from charges_default"); got[0] != "1" {
		t.Errorf("%s charges in the default partition", got)
	}
	now := time.Date(2016, 4, 20, 0, 0, 0, 0, time.UTC)
	end := func(want time.Time) {
		t.Helper()
		if got, err := stranger.PartitionsEnd(t.Context(), now); err != nil || !got.Equal(want) {
			t.Errorf("partitions end %s, error %v, want %s", got, err, want)
		}
	}
	end(time.Date(2016, 4, 1, 0, 0, 0, 0, time.UTC))
	script, err := database.Postgres.Schema(now, now.AddDate(0, 3, 0))
	check(t, err)
	for range 2 {
		server.script(t, "partitions", script)
	}
	end(time.Date(2016, 8, 1, 0, 0, 0, 0, time.UTC))
	if got, err := owner.PartitionsEnd(t.Context(), now); err != nil || !got.IsZero() {
		t.Errorf("partitions of the owner end %s, error %v", got, err)
	}
	for text, want := range map[string]string{
		inDefault: "0", "select count(*) from events_2016_05": "1", "select count(*) from events": "1020",
		"select count(*) from charges_default": "0", "select energy_mj from charges_2016_05": "7",
	} {
		if got := strings.Join(db.rows(t, text), ""); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	check(t, stranger.Append(t.Context(), table.Events, table.EventRows(table.Events, "east", events[:20]))) // the same events again
	if got := db.rows(t, "select count(*) from events"); got[0] != "1020" {
		t.Errorf("the database has %s events after repetitions", got)
	}
	check(t, owner.Prune(t.Context(), time.Date(2016, 7, 1, 0, 0, 0, 0, time.UTC), false, func(table.Deleted) {}))
	if got := strings.Join(db.rows(t, "select relname from pg_class where relname like 'charges_2%' and relkind = 'r' order by 1"), " "); got != "charges_2016_07" {
		t.Errorf("partitions after a prune: %s", got)
	}
}

// testPruneConcurrent checks that hours are charged once, even if they are written while their month is pruned.
func testPruneConcurrent(t *testing.T, kind databases, server *server) {
	url, db := server.create(t, "pruned")
	month := table.Month(sinktest.Noon)
	const hours = 60
	failed := concurrently(t, kind, url, func(n int, sink closer) error {
		for i := range hours {
			hour := month.Add(time.Duration((i*7+n)%hours) * time.Hour)
			if err := sink.Replace(t.Context(), sinktest.Hour(hour, int64(i+1))); err != nil && !errors.Is(err, table.ErrPruned) {
				return err
			}
		}
		return nil
	})
	sink, err := kind.sink(t.Context(), url)
	check(t, err)
	defer sink.Close()
	prune := func() {
		t.Helper()
		check(t, sink.Prune(t.Context(), month.AddDate(0, 1, 0), false, func(table.Deleted) {}))
	}
	for left := atOnce; left > 0; {
		select {
		case err := <-failed:
			left--
			if err != nil {
				t.Error(err)
			}
		default:
			prune()
		}
	}
	prune()
	want := db.rows(t, "select count(*), sum(energy_mj) from hours where state = 'pruned'")
	if !strings.HasPrefix(want[0], strconv.Itoa(hours)+" | ") {
		t.Errorf("pruned hours: %s, want %d", want[0], hours)
	}
	got := db.rows(t, "select (select count(*) from hours), sum(energy_mj) from statements")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("energy (-hours +statements):\n%s", diff)
	}
}
