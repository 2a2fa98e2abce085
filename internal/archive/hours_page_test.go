package archive

import (
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/serve"
)

// shownHours archives the hours until a minute after noon, and returns the hours page.
func (f *filing) shownHours(minute int, path string, flags ...string) string {
	f.Helper()
	f.now = noon.Add(time.Duration(minute) * time.Minute)
	c, err := Parse(append([]string{"run", "--web.pages", "--web.listen-address=127.0.0.1:0", "--store.url=" + f.url}, flags...))
	check(f, err)
	log := slog.New(slog.DiscardHandler)
	a, err := newArchive(c, log)
	check(f, err)
	defer a.store.Close()
	a.now = func() time.Time { return f.now }
	for _, sink := range a.filers {
		sink.add(noon, f.now.Add(-settle).Truncate(time.Hour).Add(-time.Hour), f.now)
		_ = sink.once(f.Context()) // hours are refused, so once returns an error
	}
	check(f, a.openSite(&c, serve.New(c.Serve, log)))
	h, err := a.handler(prometheus.NewRegistry())
	check(f, err)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if w.Code != http.StatusOK {
		f.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

var (
	row = regexp.MustCompile(`<tr>(<td.*?)</tr>`)
	tag = regexp.MustCompile(`<[^>]*>`)
)

func rowWith(t *testing.T, page string, words ...string) []string {
	t.Helper()
	for _, found := range row.FindAllStringSubmatch(page, -1) {
		var cells []string
		for cell := range strings.SplitSeq(found[1], "</td>") {
			cells = append(cells, html.UnescapeString(tag.ReplaceAllString(cell, "")))
		}
		all := strings.Join(cells, "|")
		for _, word := range words {
			if !strings.Contains(all, word) {
				all = ""
			}
		}
		if all != "" {
			return cells[:len(cells)-1]
		}
	}
	t.Fatalf("no row contains the words %q:\n%s", words, page)
	return nil
}

// wordsOf splits a command as a shell does.
func wordsOf(t *testing.T, command string) []string {
	t.Helper()
	arguments, found := strings.CutPrefix(command, "gpuledger-archive ")
	if !found {
		t.Fatalf("command %q", command)
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `printf '%s\n' `+arguments).Output()
	check(t, err)
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

func states(t *testing.T, s books.Source, err error) (all []string) {
	t.Helper()
	check(t, err)
	for h, err := range s.Hours(t.Context(), books.Query{From: noon, Until: noon.Add(24 * time.Hour)}) {
		check(t, err)
		all = append(all, string(h.State))
	}
	check(t, s.Close())
	return all
}

// TestCommandsOfHours removes half of the nodes from a store, so that hours are refused. It runs the commands from the
// hours page in another working directory. Afterwards, all hours must be complete in both sinks, and the hash chain
// must be signed.
func TestCommandsOfHours(t *testing.T) {
	f := newFiling(t, life{machines: pool(6, 0, always)})
	lost := map[string]bool{"n0-0": true, "n0-1": true, "n0-2": true}
	f.hidden = func(labels map[string]string, at time.Time) bool {
		return lost[labels["node"]] && at.After(noon.Add(time.Hour)) && at.Before(noon.Add(2*time.Hour+time.Second))
	}
	dir := t.TempDir()
	folder, file := filepath.Join(dir, "it's a folder"), filepath.Join(dir, "gpuledger.db")
	sinktest.KeyFiles(t, filepath.Join(dir, "chain.pem"), filepath.Join(dir, "public.pem"))
	flags := []string{"--folder=it's a folder", "--to=sqlite:gpuledger.db", "--cluster=east", "--chain.key=chain.pem", "--chain.publish=file:checkpoints.jsonl"}
	t.Chdir(dir)
	check := func(want string) {
		t.Helper()
		s, err := books.OpenFolder(t.Context(), folder)
		if got := strings.Join(states(t, s, err), " "); got != want {
			t.Errorf("the folder has the states %q, want %q", got, want)
		}
		s, err = books.OpenSQLite(t.Context(), file)
		if got := strings.Join(states(t, s, err), " "); got != want {
			t.Errorf("the database has the states %q, want %q", got, want)
		}
	}
	run := func(command string) {
		t.Helper()
		t.Chdir("/")
		defer t.Chdir(dir)
		c, err := Parse(wordsOf(t, command))
		if err == nil {
			err = Once(t.Context(), c, f.now, slog.New(slog.NewTextHandler(&f.log, nil)))
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, f.log.String())
		}
	}
	page := f.shownHours(190, "/hours/2026-03", flags...)
	if !strings.Contains(page, "stop the program, run the command") {
		t.Errorf("the page has no notice about the locked folder:\n%s", page)
	}
	cells := rowWith(t, page, "silent_nodes")
	for _, sink := range []string{"folder", "sqlite"} {
		if cells := rowWith(t, page, sink+"|east", "silent_nodes"); len(cells) != 5 || cells[0] != sink || cells[1] != "east" || cells[2] != "2026-03-01 13:00" {
			t.Errorf("refused: %q", cells)
		}
	}
	check("complete complete")
	run(cells[4])
	check("complete gaps complete")

	shown := f.shownHours(190, "/hours?from=2026-03-01T12&to=2026-03-01T16&o=csv", flags...)
	lines := 0
	for line := range strings.Lines(shown) {
		if strings.HasPrefix(line, "folder,east,") || strings.HasPrefix(line, "sqlite,east,") {
			lines++
		}
	}
	if want := 2 * len([]string{"complete", "gaps", "complete", "missing"}); lines != want || !strings.HasPrefix(shown, "sink,cluster,state,") {
		t.Errorf("the CSV has %d rows for the sinks, want %d:\n%s", lines, want, shown)
	}

	clear(lost)
	cells = rowWith(t, f.shownHours(191, "/hours?from=2026-03-01T12&to=2026-03-01T15", flags...), "gaps", "once --again")
	run(cells[len(cells)-1])
	check("complete complete complete")
}

// The commands on the hours page must not contain secrets, relative paths, or flags that only run accepts.
func TestFlagsOfHours(t *testing.T) {
	t.Chdir("/var")
	for _, tt := range []struct{ args, want string }{
		{"", "--store.url=http://127.0.0.1:9090 --sqlite=/var/gpuledger.db"},
		{"--web.pages --web.listen-address=127.0.0.1:9841 --log.level=debug --sqlite=/a.db --cluster=east", "--cluster=east --sqlite=/a.db --store.url=http://127.0.0.1:9090"},
		{"--to=postgres://archive:secret@db/gpuledger?sslmode=verify-full&password=secret&application_name=secret", "--store.url=http://127.0.0.1:9090 --to='postgres://archive@db/gpuledger?sslmode=verify-full'"},
		{"--postgres.url=postgres://archive:secret@db/gpuledger --s3.url=s3://bucket/prefix --s3.region=eu", "--postgres.url='postgres://archive@db/gpuledger' --s3.region=eu --s3.url=s3://bucket/prefix --store.url=http://127.0.0.1:9090"},
		{"--to=https://hooks.example.com/secret#token-file=/dev/null --to=file:a?format=csv,parquet", "--store.url=http://127.0.0.1:9090 --to='file:///var/a?format=csv,parquet'"},
		{"--to=SQLite:a%20b.db --folder=../c", "--folder=/c --store.url=http://127.0.0.1:9090 --to='sqlite:///var/a%20b.db'"},
		{
			"--chain.key=k/chain.pem --chain.publish=file:points.jsonl --chain.publish=configmap:a/b --chain.publish=https://hooks.example.com/secret --sqlite=/a.db",
			"--chain.key=/var/k/chain.pem --sqlite=/a.db --store.url=http://127.0.0.1:9090 --chain.publish=file:///var/points.jsonl --chain.publish=configmap:a/b",
		},
		{
			"--store.type=thanos --store.url=https://reader:secret@thanos.example.com/q?dedup=false&namespace=gpu&token=secret --store.http.config.file=http.yaml --sqlite=/a.db",
			"--sqlite=/a.db --store.http.config.file=/var/http.yaml --store.type=thanos --store.url='https://thanos.example.com/q?dedup=false&namespace=gpu'",
		},
	} {
		c, err := Parse(append([]string{"run", "--store.url=http://127.0.0.1:9090"}, strings.Fields(tt.args)...))
		check(t, err)
		if got := c.shown; got != tt.want {
			t.Errorf("%s: %s, want %s", tt.args, got, tt.want)
		}
	}
}
