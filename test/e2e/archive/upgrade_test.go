//go:build e2e

package archive_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/test/upgrade"
)

// The earlier program writes the hours until the upgrade, which is six hours after the start of a month.
var (
	opened   = time.Date(2026, 2, 28, 12, 0, 0, 0, time.UTC)
	upgraded = time.Date(2026, 3, 1, 6, 0, 0, 0, time.UTC)
	closed   = time.Date(2026, 3, 1, 18, 0, 0, 0, time.UTC)
)

var months = []string{"2026-02", "2026-03"}

type upgrading struct {
	earlier, now string // paths of the programs
	store        string // flag for the store
	want         map[string][]map[string]any
}

func (u *upgrading) file(t *testing.T, path string, from, until time.Time, sink ...string) (string, error) {
	t.Helper()
	args := append([]string{"once", "--log.format=json", u.store, "--from=" + from.Format(time.RFC3339), "--until=" + until.Format(time.RFC3339)}, sink...)
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	return string(out), err
}

func (u *upgrading) statement(t *testing.T, path, books, month string) []map[string]any {
	t.Helper()
	var answer struct{ Rows []map[string]any }
	cmd := exec.CommandContext(t.Context(), path, "statement", "--books="+books, "--month="+month, "--by=namespace,workload,pod,unit,user,serial,reason", "-o=json")
	var notices strings.Builder
	cmd.Stderr = &notices
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, notices.String(), out)
	}
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	decoder.UseNumber()
	check(t, decoder.Decode(&answer))
	if len(answer.Rows) < 20 {
		t.Fatalf("%v: %d rows", cmd.Args, len(answer.Rows))
	}
	return answer.Rows
}

// equal checks that this program's statement contains all rows and columns of the earlier program's statement.
func (u *upgrading) equal(t *testing.T, when, books, month string) {
	t.Helper()
	want, got := u.want[month], u.statement(t, u.now, books, month)
	for _, row := range got {
		maps.DeleteFunc(row, func(column string, _ any) bool {
			_, known := want[0][column]
			return !known
		})
	}
	if diff := cmp.Diff(sorted(want), sorted(got)); diff != "" {
		t.Errorf("%s: statement of %s (-earlier program +this program):\n%s", when, month, diff)
	}
}

func sorted(rows []map[string]any) (all []string) {
	for _, row := range rows {
		text, _ := json.Marshal(row)
		all = append(all, string(text))
	}
	return slices.Sorted(slices.Values(all))
}

// TestUpgrade checks that this program continues an archive of the earlier program. The earlier program also writes all
// hours to a separate folder. The statements of both archives must be equal, for the month before the upgrade and for
// the month of the upgrade. The test also checks how the earlier program behaves with the new tables.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	s := foldtest.NewStore()
	foldtest.NewFleet(s, opened, 7, 3, "cluster", "east").Run(int(closed.Sub(opened).Minutes()))
	server := httptest.NewServer(foldtest.API{Store: s})
	defer server.Close()
	u := &upgrading{earlier: upgrade.Previous(t).Program("gpuledger-archive"), now: binary(), store: "--store.url=" + server.URL, want: make(map[string][]map[string]any)}
	folder := t.TempDir()
	if out, err := u.file(t, u.earlier, opened, closed, "--folder="+folder); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, month := range months {
		u.want[month] = u.statement(t, u.earlier, folder, month)
	}

	for _, format := range []string{"csv", "parquet"} {
		t.Run(format, func(t *testing.T) {
			folder := t.TempDir()
			u.run(t, folder, "--folder="+folder, "--folder.format="+format)
			const reason = "move it away, to file its day again"
			if out, err := u.file(t, u.earlier, opened, closed, "--folder="+folder, "--folder.format="+format, "--again"); err == nil || !strings.Contains(out, reason) {
				t.Errorf("the earlier program files into a folder with newer columns: %v, want %q\n%s", err, reason, out)
			}
			for _, month := range months {
				u.equal(t, "after a downgrade", folder, month)
			}
		})
	}
	t.Run("SQLite", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "archive.db")
		u.run(t, file, "--sqlite="+file)
		u.refused(t, file, "--sqlite="+file)
	})
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			url, _ := kind.start(t).create(t, "gpuledger")
			u.run(t, url, kind.flag+"="+url)
			u.refused(t, url, kind.flag+"="+url)
		})
	}
}

// run compares the statements before the migration, after the migration, and after the last hour.
func (u *upgrading) run(t *testing.T, books string, sink ...string) {
	t.Helper()
	if out, err := u.file(t, u.earlier, opened, upgraded, sink...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	u.equal(t, "before the migration", books, months[0])
	if out, err := u.file(t, u.now, upgraded, closed, sink...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, month := range months {
		u.equal(t, "after the upgrade", books, month)
	}
	out, err := u.file(t, u.now, opened, closed, append(sink, "--again")...)
	if err != nil || strings.Contains(out, `"msg":"hour filed"`) {
		t.Errorf("hours of the earlier program are filed again: %v\n%s", err, out)
	}
}

// refused checks that the earlier program refuses to write to tables of a newer version, but still reads them.
func (u *upgrading) refused(t *testing.T, books, sink string) {
	t.Helper()
	const reason = "install a newer gpuledger-archive"
	if out, err := u.file(t, u.earlier, upgraded, closed, sink, "--again"); err == nil || !strings.Contains(out, reason) {
		t.Errorf("the earlier program files in newer tables: %v, want %q\n%s", err, reason, out)
	}
	for _, month := range months {
		if diff := cmp.Diff(sorted(u.want[month]), sorted(u.statement(t, u.earlier, books, month))); diff != "" {
			t.Errorf("statement of %s by the earlier program (-before +after the migration):\n%s", month, diff)
		}
	}
}

// TestUpgradeEvents checks the earlier reconciler with this archive, and this reconciler with the earlier archive. Each
// event must arrive exactly once.
func TestUpgradeEvents(t *testing.T) {
	t.Parallel()
	previous := upgrade.Previous(t)
	w := newPods(t)
	db := startPostgres(t)
	for name, programs := range map[string]struct{ archive, reconciler string }{
		"new_reconciler": {previous.Program("gpuledger-archive"), w.binary},
		"new_archive":    {binary(), previous.Program("gpuledger-reconciler")},
	} {
		t.Run(name, func(t *testing.T) {
			url, query := db.create(t, name)
			_, r := w.send(t, url, programs.archive, programs.reconciler)
			pod := strings.ReplaceAll(name, "_", "-")
			w.create(pod)
			r.awaitLogged(w.id(pod, "phase/Pending"))
			w.run(pod)
			w.restart(pod)
			r.awaitLogged(w.id(pod, "phase/Running"), w.id(pod, "failure/main/137"))
			r.awaitFiled(query)
			of := "pod_uid = '" + w.uids[pod] + "'"
			for text, want := range map[string][]string{
				"select detail::json->>'to' from events where event = 'phase' and " + of + " order by at":                                    {"Pending", "Running"},
				"select detail::json->>'exit_code' from events where event = 'failure' and " + of:                                            {"137"},
				"select distinct object::json->'spec'->'containers'->0->'resources'->'limits'->>'nvidia.com/gpu' from snapshots where " + of: {"8"},
			} {
				// The archive writes snapshots after the events for which [reconciler.awaitFiled] waits.
				await(t, time.Minute, func() error {
					if diff := cmp.Diff(want, query.rows(t, text)); diff != "" {
						return errors.New(diff)
					}
					return nil
				})
			}
		})
	}
}
