package archive

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

func TestPrune(t *testing.T) {
	dir := t.TempDir()
	january := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s, err := files.Open(dir, []string{"csv"})
	check(t, err)
	for _, at := range []time.Time{january, january.Add(time.Hour), january.AddDate(0, 1, 0)} {
		h := &table.Hour{
			Cluster: "east", Start: at, GPUs: []table.GPU{{Node: "n", UUID: "GPU-1", Energy: 7}},
			Charges: []table.Charge{{Node: "n", UUID: "GPU-1", Reason: "idle", Energy: 7}},
		}
		check(t, s.Replace(t.Context(), sinktest.Complete(h)))
	}
	run := func(args ...string) (out, log string, err error) {
		t.Helper()
		c, err := Parse(append([]string{"prune", "--folder=" + dir}, args...))
		check(t, err)
		var printed, logged bytes.Buffer
		err = Prune(t.Context(), c, &printed, january.AddDate(1, 0, 0), slog.New(slog.NewTextHandler(&logged, nil)))
		return printed.String(), logged.String(), err
	}
	if _, _, err := run("--before=2026-02-01"); err == nil || !strings.Contains(err.Error(), "another gpuledger-archive writes this folder") {
		t.Errorf("error for a folder in use is %v", err)
	}
	check(t, s.Close())
	if _, _, err := run("--before=2027-02-01"); err == nil || !strings.Contains(err.Error(), "in the future") {
		t.Errorf("error for a time in the future is %v", err)
	}
	for _, args := range [][]string{{"--dry-run"}, {"--http.url=http://x"}} {
		out, log, err := run(append(args, "--before=2026-02-20")...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if err != nil || len(lines) != 4 || !strings.Contains(log, "only whole months are pruned") {
			t.Fatalf("%v: error %v\n%s%s", args, err, out, log)
		}
		if got := strings.Join(strings.Fields(lines[3]), " "); got != "folder hours (marked as pruned) east 2 - - 2026-01-01T00 2026-01-01T01" {
			t.Errorf("%v: the manifest is %q", args, got)
		}
		if got := strings.Fields(lines[1]); len(got) != 8 || got[1] != "charges" || got[4] != "1" || got[6] != "2026-01-01T00" || got[7] != "2026-01-01T23" {
			t.Errorf("%v: charges are %q", args, got)
		}
		if dry, sent := strings.Contains(log, "this is a dry run"), strings.Contains(log, "cannot be deleted"); dry == sent {
			t.Errorf("%v: log\n%s", args, log)
		}
	}
	if out, _, err := run("--before=2026-02-01"); err != nil || strings.Count(out, "\n") != 1 {
		t.Errorf("a second prune: error %v\n%s", err, out)
	}
}

func TestPrunedAgain(t *testing.T) {
	simulate(t, func(w *world) {
		sink, dir := w.folder("one")
		_, stop := w.start(nil, sink)
		w.until(5, 31)
		stop()
		s, err := files.Open(dir, []string{"csv"})
		check(w, err)
		err = s.Prune(w.Context(), table.Month(w.begin).AddDate(0, 1, 0), false, func(table.Deleted) {})
		check(w, err)
		check(w, s.Close())
		before := w.manifest(dir, "east")
		_, stop = w.start(nil, sink)
		w.until(24, 15) // the last 48 hours are read again
		stop()
		after := w.manifest(dir, "east")
		for hour, filed := range before {
			if !filed.Pruned || after[hour] != filed {
				w.Errorf("hour %d is %+v, then %+v", hour, filed, after[hour])
			}
		}
		if len(before) == 0 || len(after) <= len(before) {
			w.Errorf("%d hours, then %d", len(before), len(after))
		}
		if strings.Contains(w.log.String(), "hour refused") {
			w.Errorf("log:\n%s", w.log)
		}
	})
}
