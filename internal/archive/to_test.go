package archive

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTo(t *testing.T) {
	simulate(t, func(w *world) {
		one, two, dir := w.TempDir(), w.TempDir(), w.TempDir()
		args := []string{"--to=file:" + one, "--to=file://" + two, "--to=sqlite:" + filepath.Join(dir, "one.db"), "--sqlite=" + filepath.Join(dir, "two.db")}
		if err := w.command(args); err != nil {
			w.Error(err)
		}
		if rows := w.rows(one); rows == 0 || rows != w.rows(two) {
			w.Errorf("%d rows in the first folder, %d in the second", rows, w.rows(two))
		}
		for _, cluster := range []string{"east", "west"} {
			if diff := cmp.Diff(w.filed(one, cluster), w.filed(two, cluster)); diff != "" {
				w.Errorf("hours of %s (-one +two):\n%s", cluster, diff)
			}
		}
		for _, name := range []string{"sqlite", "folder", "folder-2", "sqlite-2"} {
			if n := strings.Count(w.log.String(), "msg=finished sink="+name+" filed=10 "); n != 1 {
				w.Errorf("%d summaries of %s with 10 hours", n, name)
			}
		}
		check(w, os.RemoveAll(filepath.Join(two, "hours")))
		if err := w.command(args); err != nil {
			w.Error(err)
		}
		if n := strings.Count(w.log.String(), "msg=finished sink=folder-2 filed=10 "); n != 2 {
			w.Errorf("the folder without a manifest is filed %d times, want twice", n)
		}
		if n := strings.Count(w.log.String(), "msg=finished sink=folder filed=10 "); n != 1 {
			w.Errorf("the folder with a manifest is filed %d times, want once", n)
		}
	})
}

// In the command accept, --to is the end of the hours if it begins with a digit, and otherwise the URL of a sink.
func TestToOfAccept(t *testing.T) {
	c, err := Parse([]string{"accept", "east", "--from=2026-03-01", "--to=2026-03-02", "--to=file:x", "--reason=x"})
	if err != nil || !c.Until.Equal(noon.Truncate(24*time.Hour).AddDate(0, 0, 1)) || len(c.places) != 1 || c.places[0].Folder != "x" {
		t.Errorf("until %s, places %v, error %v", c.Until, c.places, err)
	}
	for _, args := range [][]string{{"once", "--folder=x", "--to=2026-03-02"}, {"accept", "east", "--from=2026-03-01", "--to=file:x", "--reason=x"}, {"once", "--to=2026-03-32"}} {
		if _, err := Parse(args); err == nil || !strings.Contains(err.Error(), "to") {
			t.Errorf("error for %q is %v", args, err)
		}
	}
}

// All sinks in this test fail, so that the program logs failures.
func TestSecretsInLog(t *testing.T) {
	const secret = "Pq7hunter"
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	var out bytes.Buffer
	for _, url := range []string{
		"postgres://archive:" + secret + "@127.0.0.1:1/db?application_name=" + secret, "mysql://archive:" + secret + "@127.0.0.1:1/db?timeout=1s",
		"s3://bucket/p?endpoint=http://127.0.0.1:1&region=x", "sqlite:/proc/none/x.db", "file:/proc/none", "https://127.0.0.1:1/hooks/" + secret + "#token-file=/none",
	} {
		out.Reset()
		c, err := Parse([]string{"once", "--store.url=http://127.0.0.1:1", "--store.timeout=2s", "--to=" + url})
		check(t, err)
		err = Once(t.Context(), c, noon, slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		if err == nil || strings.Contains(out.String()+err.Error(), secret) {
			t.Errorf("%s: error %v, log:\n%s", url, err, out.String())
		}
		scheme, _, _ := strings.Cut(url, ":")
		if !strings.Contains(out.String(), "sink failed") || !strings.Contains(out.String(), "--to="+scheme+":") {
			t.Errorf("%s: the log does not name the sink:\n%s", url, out.String())
		}
	}
}
