package books_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestEarlierDatabase checks that values are unknown or zero if an earlier version created the database without their
// columns.
func TestEarlierDatabase(t *testing.T) {
	path := bookstest.File(t, "sqlite", hour("east", 0))
	for _, c := range table.GPUHours.Columns {
		if c.Added() {
			execute(t, path, "alter table gpu_hours drop column "+c.Name)
		}
	}
	source := bookstest.Open(t, path)
	defer source.Close()
	want := rowsOf("east", 0)
	for i := range want {
		want[i].ClearErrors()
		want[i].Uncounted = 0
	}
	var got []table.GPU
	for row, err := range source.Rows(t.Context(), books.Query{From: begin, Until: begin.AddDate(0, 0, 1)}) {
		check(t, err)
		got = append(got, row.GPU)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
