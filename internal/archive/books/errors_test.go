package books_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestErrors checks that all kinds of books return known, zero and unknown numbers of errors, and that a database that an earlier
// version created returns unknown ones.
func TestErrors(t *testing.T) {
	h := hour("east", 0)
	h.GPUs[0].DRAMUncorrectable, h.GPUs[0].LifetimeUncorrectable, h.GPUs[0].Thermal = new(int64(5)), new(int64(0)), new(int64(1500))
	h.GPUs[0].RecoveryAction = "reboot"
	type errors struct {
		DRAM, SRAM, Lifetime, Thermal *int64
		Action                        string
	}
	want := []errors{{DRAM: new(int64(5)), Lifetime: new(int64(0)), Thermal: new(int64(1500)), Action: "reboot"}, {}}
	compare := func(t *testing.T, name string, want []errors, s books.Source, err error) {
		check(t, err)
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
	for _, format := range files.Formats() {
		folder := t.TempDir()
		sink, err := files.Open(folder, []string{format})
		check(t, err)
		check(t, sink.Replace(t.Context(), h))
		check(t, sink.Close())
		source, err := books.OpenFolder(t.Context(), folder)
		compare(t, format, want, source, err)
	}

	path := filepath.Join(t.TempDir(), "archive.db")
	sink, err := database.SQLite.Open(t.Context(), path, "")
	check(t, err)
	check(t, sink.Replace(t.Context(), h))
	check(t, sink.Close())
	source, err := books.OpenSQLite(t.Context(), path)
	compare(t, "database", want, source, err)

	db, err := sql.Open("sqlite", "file:"+path)
	check(t, err)
	for _, c := range table.GPUHours.Columns {
		if c.Added() {
			_, err := db.ExecContext(t.Context(), "alter table gpu_hours drop column "+c.Name)
			check(t, err)
		}
	}
	check(t, db.Close())
	source, err = books.OpenSQLite(t.Context(), path)
	compare(t, "earlier database", []errors{{}, {}}, source, err)
}
