//go:build e2e

package archive_test

import (
	"context"
	"database/sql"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
)

var textTime = regexp.MustCompile(`(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\d\.\d{3}Z`)

// openFile queries an SQLite file without the archive's code. It omits the seconds of times, as for other databases.
func openFile(t *testing.T, path string) query {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	check(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return func(ctx context.Context, text string) ([]string, error) {
		lines, err := queries(db)(ctx, text)
		for i, line := range lines {
			lines[i] = textTime.ReplaceAllString(line, "$1 $2")
		}
		return lines, err
	}
}

// TestSQLite checks that an SQLite file contains the same hours as a folder, even if the archive is killed at random
// times.
func TestSQLite(t *testing.T) {
	t.Parallel()
	s := foldtest.NewStore()
	fleet := foldtest.NewFleet(s, began, 6, 4, "cluster", "east")
	fleet.Run(hours * 60)
	store := "--store.url=" + simulated(t, s)
	file, folder := filepath.Join(t.TempDir(), "archive.db"), t.TempDir()
	db := openFile(t, file)
	kill(t, func() *exec.Cmd {
		whole(t, db)
		return command(t.Context(), folder, store, "--sqlite="+file, "--again")
	})
	whole(t, db)
	fileHours(t, folder, store, "--sqlite="+file)
	equal(t, folder, db)
	boards(t, fleet, db)
	intervals(t, databases{name: "SQLite"}, fleet, db)
}
