package books_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestDays compares statements, boards and places for random periods. A folder of files computes the answers from
// hours. The database must compute them from daily sums, because the test has removed the hours of whole days.
func TestDays(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 9))
	var hours []*table.Hour
	for n := range 5 * 24 {
		h := hour("east", n)
		for i := range h.Charges {
			c := &h.Charges[i]
			c.Energy = random.Int64N(1000)
			if c.Reason == "" {
				c.Team, c.Unit = []string{"red", "blue"}[random.IntN(2)], strconv.Itoa(n/30)
			}
		}
		h.GPUs[n%2].Scrapes = int64(random.IntN(2))
		hours = append(hours, sinktest.Complete(h))
	}
	from, file := bookstest.Open(t, bookstest.File(t, "csv", hours...)), bookstest.File(t, "sqlite", hours...)
	for range 40 {
		of := books.Query{From: begin.Add(time.Duration(random.IntN(70)) * time.Hour), By: [][]string{{"team"}, {"model", "reason"}, {"unit", "uuid", "hour"}, nil}[random.IntN(4)]}
		of.Until = of.From.Add(time.Duration(1+random.IntN(50)) * time.Hour)
		if slices.Contains(of.By, "hour") && random.IntN(2) == 0 {
			of.Parts = []time.Time{of.From, table.Day(of.From).Add(time.Duration(24+5*random.IntN(2)) * time.Hour)}
			of.Until = of.From.Add(50 * time.Hour)
		}
		if random.IntN(2) == 0 {
			of.Where = map[string][]string{"uuid": {"GPU-1"}}
		}
		in := bookstest.Open(t, lose(t, file, of))
		for _, read := range []func(s books.Source) any{
			func(s books.Source) any { st, err := s.Statement(t.Context(), of); check(t, err); return st.Charges },
			func(s books.Source) any { return boards(t, s, of) },
			func(s books.Source) any { return places(t, s, of) },
		} {
			if diff := cmp.Diff(read(from), read(in)); diff != "" {
				t.Fatalf("%+v (-hours +days):\n%s", of, diff)
			}
		}
		check(t, in.Close())
	}
	of := books.Query{From: begin, Until: begin.AddDate(0, 0, 3)}
	in := bookstest.Open(t, lose(t, file, of))
	defer func() { check(t, in.Close()) }()
	of.By = []string{"hour"} // places must not depend on By
	if diff := cmp.Diff(places(t, from, of), places(t, in, of)); diff != "" {
		t.Errorf("places (-hours +days):\n%s", diff)
	}
}

// TestEmptyDays checks that hours are read as long as there are no daily sums.
func TestEmptyDays(t *testing.T) {
	of := books.Query{From: begin, Until: begin.AddDate(0, 0, 1)}
	for _, empty := range []string{"delete from days", "delete from gpu_days"} {
		file := bookstest.File(t, "sqlite", hoursOf(24)...)
		execute(t, file, empty)
		in := bookstest.Open(t, file)
		st, err := in.Statement(t.Context(), of)
		check(t, err)
		if len(st.Charges) != 1 || st.Charges[0].Energy != 24*200 {
			t.Errorf("after %s: charges %+v, want 4800 mJ", empty, st.Charges)
		}
		for b, n := range boards(t, in, of) {
			if n != 24 {
				t.Errorf("after %s: %d hours of %s, want 24", empty, n, b.UUID)
			}
		}
		if n := len(boards(t, in, of)); n != 2 {
			t.Errorf("after %s: %d boards, want 2", empty, n)
		}
		check(t, in.Close())
	}
}

// TestWrongDays changes, removes and adds daily sums. The audit must report exactly these days.
func TestWrongDays(t *testing.T) {
	file := bookstest.File(t, "sqlite", hoursOf(4*24)...)
	first := table.Day(begin.Add(24*time.Hour - 1))
	second := first.AddDate(0, 0, 1)
	of := books.Query{From: first, Until: first.AddDate(0, 0, 3)}
	ofDay := " where day = '" + second.Format(time.DateOnly) + "'"
	for _, change := range []string{
		"", "update days set energy_mj = energy_mj - 1" + ofDay, "update days set gpu_ms = gpu_ms + 1" + ofDay, "delete from days" + ofDay,
		"update gpu_days set energy_mj = energy_mj + 1" + ofDay, "update gpu_days set scrapes = scrapes + 1" + ofDay, "delete from gpu_days" + ofDay,
		"update charges set busy_ms = busy_ms + 1 where hour = '" + table.Format(second.Add(time.Hour)) + "'",
	} {
		changed := filepath.Join(t.TempDir(), "changed.db")
		execute(t, file, "vacuum into '"+changed+"'")
		var want []books.ClusterDay
		if change != "" {
			execute(t, changed, change)
			want = append(want, books.ClusterDay{Cluster: "east", Day: second})
		}
		in := bookstest.Open(t, changed)
		audit, err := in.(books.Auditing).Audit(t.Context(), of)
		check(t, err)
		check(t, in.Close())
		if diff := cmp.Diff(want, audit.WrongDays); diff != "" {
			t.Errorf("after %q (-want +got):\n%s", change, diff)
		}
	}
}

// execute fails if the statement changes no row.
func execute(t *testing.T, file, change string) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	check(t, err)
	defer db.Close()
	result, err := db.ExecContext(t.Context(), change)
	check(t, err)
	if n, err := result.RowsAffected(); err != nil || n == 0 && !strings.HasPrefix(change, "vacuum") && !strings.HasPrefix(change, "alter") {
		t.Fatalf("%s: changed %d rows, %v", change, n, err)
	}
}

func boards(t *testing.T, s books.Source, of books.Query) map[books.Board]int {
	t.Helper()
	found, _, err := s.Counted(t.Context(), of)
	check(t, err)
	all := make(map[books.Board]int)
	for _, b := range found {
		hours := b.Hours
		b.Hours = 0
		all[b] += hours
	}
	return all
}

// places returns the hours in which each GPU was scraped in a place. The last element is not an hour, but encodes the
// total number of scrapes. The key contains the GPU and the place.
func places(t *testing.T, s books.Source, of books.Query) map[string][]time.Time {
	t.Helper()
	of.Places = true
	scrapes, all := make(map[string]int64), make(map[string][]time.Time)
	for row, err := range s.Rows(t.Context(), of) {
		check(t, err)
		g, hour, n := row.GPU, row.Hour, row.Scrapes
		g.Hour, g.First, g.Last, g.Scrapes = time.Time{}, time.Time{}, time.Time{}, 0
		place := fmt.Sprint(g)
		for scrapes[place] += n; n > 0 && (hour.Equal(row.Hour) || !hour.After(row.LastHour)); hour = hour.Add(time.Hour) {
			all[place] = append(all[place], hour.UTC())
		}
	}
	for place, n := range scrapes {
		all[place] = append(all[place], time.Unix(n, 0))
	}
	return all
}

// lose copies a database, deletes the hours that daily sums can replace in the query, and returns the path of the copy.
func lose(t *testing.T, file string, of books.Query) string {
	t.Helper()
	lost := filepath.Join(t.TempDir(), "lost.db")
	execute(t, file, "vacuum into '"+lost+"'")
	if slices.Contains(of.By, "hour") && (of.Parts == nil || of.Parts[1].Hour() != 0) {
		return lost
	}
	day, end := table.Day(of.From.Add(24*time.Hour-1)), table.Day(of.Until)
	for _, name := range []string{"charges", "gpu_hours"} {
		if day.Before(end) {
			execute(t, lost, "delete from "+name+" where hour >= '"+table.Format(day)+"' and hour < '"+table.Format(end)+"'")
		}
	}
	return lost
}
