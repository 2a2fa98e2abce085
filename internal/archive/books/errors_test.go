package books_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestErrors checks known, zero and unknown numbers of errors in all kinds of books. A database of an earlier version
// must return unknown numbers.
func TestErrors(t *testing.T) {
	h := hour("east", 0)
	h.GPUs[0].DRAMUncorrectable, h.GPUs[0].LifetimeUncorrectable, h.GPUs[0].Thermal = new(int64(5)), new(int64(0)), new(int64(1500))
	h.GPUs[0].RecoveryAction = "reboot"
	type errors struct {
		DRAM, SRAM, Lifetime, Thermal *int64
		Action                        string
	}
	want := []errors{{DRAM: new(int64(5)), Lifetime: new(int64(0)), Thermal: new(int64(1500)), Action: "reboot"}, {}}
	compare := func(name, path string, want []errors) {
		s := bookstest.Open(t, path)
		defer s.Close()
		var got []errors
		for row, err := range s.Rows(t.Context(), books.Query{From: h.Start, Until: h.Start.AddDate(0, 0, 1)}) {
			check(t, err)
			got = append(got, errors{row.DRAMUncorrectable, row.SRAMUncorrectable, row.LifetimeUncorrectable, row.Thermal, row.RecoveryAction})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, kind := range bookstest.Kinds {
		compare(kind, bookstest.File(t, kind, h), want)
	}
	path := bookstest.File(t, "sqlite", h)
	for _, c := range table.GPUHours.Columns {
		if c.Added() {
			execute(t, path, "alter table gpu_hours drop column "+c.Name)
		}
	}
	compare("earlier database", path, []errors{{}, {}})
}
