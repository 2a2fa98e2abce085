//go:build e2e

package archive_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/test/program"
)

// textTime matches a time in the form in which an SQLite file stores it.
var textTime = regexp.MustCompile(`(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\d\.\d{3}Z`)

// openFile returns a function that queries an SQLite file without the archive's code. Times are returned without
// seconds, as for other databases.
func openFile(t *testing.T, path string) query {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	check(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return func(ctx context.Context, text string) ([]string, error) {
		lines, err := queryRows(ctx, db, text)
		for i, line := range lines {
			lines[i] = textTime.ReplaceAllString(line, "$1 $2")
		}
		return lines, err
	}
}

// TestSQLite checks that an SQLite file contains the same hours as a folder, even if the archive is killed at random
// times. It also checks the rows of the file's views.
func TestSQLite(t *testing.T) {
	s := foldtest.NewStore()
	fleet := foldtest.NewFleet(s, began, 6, 4, "cluster", "east")
	fleet.Run(hours * 60)
	store := "--store.url=" + serve(t, program.OpenFor(t), "store", s, "").URL()
	file, folder := filepath.Join(t.TempDir(), "archive.db"), t.TempDir()
	db := openFile(t, file)
	for range *kills {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(500))*time.Millisecond)
		_, _ = once(ctx, binary(), folder, store, "--sqlite="+file, "--again")
		cancel()
		whole(t, db)
	}
	if out, err := once(t.Context(), binary(), folder, store, "--sqlite="+file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	equal(t, folder, db)
	boards(t, fleet, db)
	intervals(t, databases{name: "SQLite"}, fleet, db)
}

// TestDefaultSink checks that the command run files hours in an SQLite file if no sink is set, and that a question
// reads this file.
func TestDefaultSink(t *testing.T) {
	const past = 5
	from := time.Now().UTC().Truncate(time.Hour).Add(-past * time.Hour)
	s := foldtest.NewStore()
	foldtest.NewFleet(s, from, 6, 4, "cluster", "east").Run(int(time.Since(from).Minutes()))
	group, address, state := program.OpenFor(t), program.AddressFor(t), t.TempDir()
	store := serve(t, group, "store", s, "").URL()
	t.Setenv("STATE_DIRECTORY", state)
	p, err := group.Start("archive", binary(), "run", "--store.url="+store, "--from="+from.Format(time.RFC3339), "--web.listen-address="+address)
	check(t, err)
	check(t, p.Ready(t.Context(), "http://"+address+"/-/healthy"))
	check(t, p.Wait(t.Context(), func() error {
		if newest := metric(t, "http://"+address+"/metrics", `gpuledger_archive_newest_hour_timestamp_seconds{cluster="east",sink="sqlite"}`); newest < float64(from.Add((past-1)*time.Hour).Unix()) {
			return fmt.Errorf("hours are filed until %v", newest)
		}
		return nil
	}))
	file := filepath.Join(state, "gpuledger.db")
	if info, err := os.Stat(file); err != nil || info.Size() == 0 {
		t.Errorf("file of the default sink: %v, %v", info, err)
	}
	question := []string{"statement", "-o", "json", "--from=" + from.Format("2006-01-02T15:04Z"), "--to=" + from.Add((past-1)*time.Hour).Format("2006-01-02T15:04Z")}
	want, got := ask(t, append(question, "--store.url="+store)...), ask(t, append(question, "--books="+file)...)
	if diff := cmp.Diff(want.Rows, got.Rows); diff != "" || len(got.Rows) == 0 {
		t.Errorf("statement (-store +file):\n%s\n%s", diff, got.errors)
	}
}
