package ask_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestVerifyLate checks an hour that was accepted without samples and corrected when the samples arrived, after its
// month was closed. All its charges are corrections, so it has no rows in other tables, but it must count as complete.
func TestVerifyLate(t *testing.T) {
	dir := t.TempDir()
	folder, err := files.Open(filepath.Join(dir, "csv"), []string{"csv"})
	check(t, err)
	sqlite, err := database.SQLite.Open(t.Context(), filepath.Join(dir, "sqlite"), "")
	check(t, err)
	for _, sink := range []interface {
		sinktest.Sink
		Close() error
	}{folder, sqlite} {
		accepted := sinktest.Complete(&table.Hour{Cluster: "east", Start: october})
		accepted.State, accepted.Reason = table.Gaps, "outage"
		check(t, sink.Replace(t.Context(), accepted))
		h := sinktest.Hour(october, kWh)
		h.Cluster, h.Revision, h.State, h.Corrections = "east", 2, table.Corrected, table.Difference(nil, h.Charges)
		check(t, sink.Correct(t.Context(), h))
		check(t, sink.Close())
	}
	for _, kind := range []string{"csv", "sqlite"} {
		r := run(t, "verify", "--from=2026-10-01", "--to=2026-10-01T01", "-o", "csv", "--books="+filepath.Join(dir, kind))
		if r.status != 0 || !strings.Contains(r.out, ",3600000000,3600000000,") {
			t.Errorf("%s: exit status %d: %s%s", kind, r.status, r.out, r.err)
		}
	}
}
