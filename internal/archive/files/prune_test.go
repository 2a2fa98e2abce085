package files_test

import (
	"encoding/csv"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

func csvRows(t *testing.T, dir string) sinktest.Rows {
	return func(of table.Table) (all [][]string) {
		err := filepath.WalkDir(filepath.Join(dir, of.Name), func(path string, d os.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && (d.IsDir() || filepath.Ext(path) != ".csv") {
				return nil
			}
			text, err := os.ReadFile(path)
			check(t, err)
			rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
			check(t, err)
			all = append(all, rows[1:]...)
			return nil
		})
		check(t, err)
		return all
	}
}

func TestPrune(t *testing.T) {
	for _, formats := range [][]string{{"csv"}, {"parquet", "csv"}} {
		t.Run(strings.Join(formats, "+"), func(t *testing.T) {
			sinktest.TestPrune(t, func(t *testing.T) (sinktest.Pruner, sinktest.Rows) {
				dir := t.TempDir()
				return open(t, dir, formats...), csvRows(t, dir)
			})
		})
	}
}

func bucketSink(t *testing.T) (*files.Sink, sinktest.Rows) {
	s := newS3(t)
	c := s.config()
	c.Formats = []string{"csv"}
	sink, err := files.OpenS3(t.Context(), c)
	check(t, err)
	return sink, func(of table.Table) (all [][]string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for name, text := range s.objects {
			if strings.Contains(name, "/"+of.Name+"/") {
				rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
				check(t, err)
				all = append(all, rows[1:]...)
			}
		}
		return all
	}
}

func TestPruneBucket(t *testing.T) {
	sinktest.TestPrune(t, func(t *testing.T) (sinktest.Pruner, sinktest.Rows) { return bucketSink(t) })
}

// TestPruneCrash stops the program before each change. The energy of the month must be the same after the stop and
// after another run. If an hour is written again after the stop, its energy must not be charged twice.
func TestPruneCrash(t *testing.T) {
	month := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for changes := 0; ; changes++ {
		dir := t.TempDir()
		s := open(t, dir)
		const want = 7 + 11 + 13
		for at, energy := range map[time.Time]int64{noon: 7, noon.Add(time.Hour): 11, noon.AddDate(0, 0, 3): 13} {
			check(t, s.Replace(t.Context(), hour(at, energy)))
		}
		err := files.Stopping(s, changes).Prune(t.Context(), month.AddDate(0, 1, 0), false, func(table.Deleted) {})
		if got := charged(t, dir, month); got != want {
			t.Fatalf("after %d changes: %d mJ, want %d", changes, got, want)
		}
		if err == nil {
			if changes < 5 {
				t.Errorf("pruning made %d changes", changes)
			}
			return
		}
		if !errors.Is(err, files.ErrStopped) {
			t.Fatal(err)
		}
		again := hour(noon, 7)
		again.Revision = 2
		if err := s.Replace(t.Context(), again); err != nil && !errors.Is(err, table.ErrPruned) {
			t.Fatal(err)
		}
		if got := charged(t, dir, month); got != want {
			t.Fatalf("after %d changes, filed again: %d mJ, want %d", changes, got, want)
		}
		check(t, s.Prune(t.Context(), month.AddDate(0, 1, 0), false, func(table.Deleted) {}))
		if got := charged(t, dir, month); got != want {
			t.Fatalf("after %d changes and another run: %d mJ, want %d", changes, got, want)
		}
		left, err := filepath.Glob(filepath.Join(dir, "charges", "*", "*"))
		if diff := cmp.Diff([]string(nil), left); diff != "" || err != nil {
			t.Fatalf("after %d changes and another run: files %v, error %v", changes, left, err)
		}
	}
}

func charged(t *testing.T, dir string, month time.Time) (energy int64) {
	t.Helper()
	source, err := books.OpenFolder(t.Context(), dir)
	check(t, err)
	st, err := source.Statement(t.Context(), books.Query{From: month, Until: month.AddDate(0, 1, 0), By: []string{"team"}, Sums: true})
	check(t, err)
	for _, c := range st.Charges {
		energy += c.Energy
	}
	return energy
}

// If an administrator has removed the files of an hour, Prune must mark the hour as pruned and omit it from the sums.
func TestPruneRemoved(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	check(t, s.Replace(t.Context(), hour(noon, 7)))
	check(t, s.Replace(t.Context(), hour(noon.AddDate(0, 0, 1), 5)))
	for _, of := range table.Data {
		check(t, os.RemoveAll(filepath.Join(dir, of.Name, "cluster=east%2F1", "date=2026-03-01")))
	}
	check(t, s.Prune(t.Context(), time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC), false, func(table.Deleted) {}))
	rows := csvRows(t, dir)
	for _, row := range rows(table.Hours) {
		if row[2] != "pruned" {
			t.Errorf("the manifest contains %q", row)
		}
	}
	sums := rows(table.MonthlyCharges)
	if len(sums) != 1 || sums[0][2] != "36" || sums[0][9] != "5" {
		t.Errorf("sums are %q, want one sum of 5 mJ in hour 36", sums)
	}
}
