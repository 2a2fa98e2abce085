package books_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// In largeHour, GPUs with high numbers were scraped before GPUs with low numbers.
func largeHour(cluster string, n, gpus int) *table.Hour {
	h := &table.Hour{Cluster: cluster, Start: begin.Add(time.Duration(n) * time.Hour)}
	for i := range gpus {
		h.GPUs = append(h.GPUs, table.GPU{
			Node: "n", UUID: fmt.Sprintf("GPU-%05d", i), Scrapes: 60, First: h.Start.Add(time.Duration(gpus-i) * time.Second), Last: h.Start.Add(59 * time.Minute), DRAMCorrectable: new(int64(1)),
		})
	}
	return h
}

// TestRowsOfFiles checks that the rows of two clusters are sorted by hour and first scrape. If the rows of a file are
// in another order, Rows must return an error and not a wrong answer.
func TestRowsOfFiles(t *testing.T) {
	folder := bookstest.File(t, "csv", largeHour("east", 2, 3), largeHour("east", 0, 3), largeHour("east", 25, 3), largeHour("west", 1, 2), largeHour("west", 2, 2))
	read := func() (got []string, err error) {
		source := bookstest.Open(t, folder)
		defer func() { check(t, source.Close()) }()
		for row, err := range source.Rows(t.Context(), books.Query{From: begin, Until: begin.AddDate(0, 0, 2)}) {
			if err != nil {
				return nil, err
			}
			got = append(got, fmt.Sprintf("%d%s%s", row.Hour.Sub(begin)/time.Hour, row.Cluster[:1], row.UUID[len(row.UUID)-1:]))
		}
		return got, nil
	}
	got, err := read()
	check(t, err)
	if want := "0e2 0e1 0e0 1w1 1w0 2e2 2w1 2e1 2w0 2e0 25e2 25e1 25e0"; strings.Join(got, " ") != want {
		t.Errorf("rows %q, want %q", strings.Join(got, " "), want)
	}
	path := filepath.Join(folder, "gpu_hours", "cluster=east", "date=2026-10-01", "gpu_hours.csv")
	text, err := os.ReadFile(path)
	check(t, err)
	lines := strings.SplitAfter(string(text), "\n")
	check(t, os.WriteFile(path, []byte(lines[0]+strings.Join(lines[4:], "")+strings.Join(lines[1:4], "")), 0o600))
	if _, err := read(); err == nil || !strings.Contains(err.Error(), "table gpu_hours, cluster east, day 2026-10-01 must be sorted by hour") {
		t.Errorf("rows in another order: %v", err)
	}
}

// TestHeapOfFiles checks that only the rows of one hour are in memory. A day with four times as many hours may take
// less than a hundred additional bytes per additional row.
func TestHeapOfFiles(t *testing.T) {
	const gpus, hours = 200, 6
	measure := func(hours int) uint64 {
		var all []*table.Hour
		for n := range hours {
			all = append(all, largeHour("east", n, gpus))
		}
		source := bookstest.Open(t, bookstest.File(t, "csv", all...))
		rows, m := 0, runtime.MemStats{}
		for _, err := range source.Rows(t.Context(), books.Query{From: begin, Until: begin.AddDate(0, 0, 1)}) {
			check(t, err)
			if rows++; rows == gpus*hours {
				runtime.GC()
				runtime.ReadMemStats(&m)
			}
		}
		if rows != gpus*hours {
			t.Fatalf("%d rows, want %d", rows, gpus*hours)
		}
		check(t, source.Close())
		return m.HeapAlloc
	}
	few, many := measure(hours), measure(4*hours)
	if added := 3 * hours * gpus; int64(many)-int64(few) > int64(100*added) {
		t.Errorf("%d kB for %d hours, %d kB for %d", few>>10, hours, many>>10, 4*hours)
	}
}
