package files_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
)

func TestRename(t *testing.T) {
	for _, formats := range [][]string{{"csv"}, {"parquet", "csv"}} {
		t.Run(strings.Join(formats, "+"), func(t *testing.T) {
			sinktest.TestRename(t, func(t *testing.T) (sinktest.Renamer, sinktest.Rows) {
				dir := t.TempDir()
				return open(t, dir, formats...), csvRows(t, dir)
			})
		})
	}
}

func TestRenameBucket(t *testing.T) {
	sinktest.TestRename(t, func(t *testing.T) (sinktest.Renamer, sinktest.Rows) { return bucketSink(t) })
}

// TestRenameStops stops the renaming before each change of a file, and then repeats the renaming.
func TestRenameStops(t *testing.T) {
	for n := 0; ; n++ {
		dir := t.TempDir()
		s := open(t, dir, "csv")
		want := sinktest.FileForRename(t, s, csvRows(t, dir))
		_, err := files.Stopping(s, n).RenameCluster(t.Context(), sinktest.Cluster, sinktest.NewName)
		if err == nil {
			if n < 20 {
				t.Errorf("only %d changes", n)
			}
			return
		}
		if !errors.Is(err, files.ErrStopped) {
			t.Fatal(err)
		}
		if _, err := s.RenameCluster(t.Context(), sinktest.Cluster, sinktest.NewName); err != nil {
			t.Errorf("stopped before change %d: %v", n, err)
		}
		sinktest.CheckRenamed(t, csvRows(t, dir), want)
		if t.Failed() {
			t.Fatalf("stopped before change %d", n)
		}
	}
}
