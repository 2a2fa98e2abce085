//go:build e2e

package archive_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/test/program"
)

type hoursPage struct {
	*testing.T
	group      *program.Group
	store      string
	from, to   time.Time
	folder, db string
	chain      []string // flags of the archive
}

// start starts the archive with paths relative to its working directory, and returns its URL.
func (p *hoursPage) start() (*program.Program, string) {
	p.Helper()
	address := program.AddressFor(p.T)
	run, err := p.group.Start("archive", binary(), append([]string{
		"run", "--web.pages", "--web.listen-address=" + address, "--store.url=" + p.store, "--store.http.config.file=http.yaml", "--from=" + p.from.Format(time.RFC3339),
		"--folder=it's a folder", "--to=sqlite:gpuledger.db",
	}, p.chain...)...)
	check(p.T, err)
	check(p.T, run.Ready(p.Context(), "http://"+address+"/-/healthy"))
	return run, "http://" + address
}

var (
	tableRow = regexp.MustCompile(`<tr>(<td.*?)</tr>`)
	anyTag   = regexp.MustCompile(`<[^>]*>`)
)

// rowOf returns the cells of the table row that contains all words.
func rowOf(page string, words ...string) ([]string, error) {
	for _, row := range tableRow.FindAllStringSubmatch(page, -1) {
		var cells []string
		for cell := range strings.SplitSeq(strings.TrimSuffix(row[1], "</td>"), "</td>") {
			cells = append(cells, html.UnescapeString(anyTag.ReplaceAllString(cell, "")))
		}
		found := true
		for _, word := range words {
			found = found && strings.Contains("|"+strings.Join(cells, "|")+"|", word)
		}
		if found {
			return cells, nil
		}
	}
	return nil, fmt.Errorf("no row has the words %q:\n%s", words, page)
}

// pasted runs the archive until it has filed all hours that it does not refuse. It returns the page, and the command in
// the row that contains all words. It reads the page only once, because the archive caches an answer for a minute.
func (p *hoursPage) pasted(words ...string) (page, command string) {
	p.Helper()
	run, base := p.start()
	defer run.Stop()
	ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
	defer cancel()
	check(p.T, run.Wait(ctx, func() error {
		for _, sink := range []string{"folder", "sqlite"} {
			if newest := metric(p.T, base+"/metrics", `gpuledger_archive_newest_hour_timestamp_seconds{cluster="east",sink="`+sink+`"}`); newest < float64(p.to.Unix()) {
				return fmt.Errorf("%s has hours until %v", sink, newest)
			}
		}
		return nil
	}))
	page, err := readPage(ctx, base+"/hours?from="+p.from.Format("2006-01-02T15")+"&to="+p.to.Format("2006-01-02T15"))
	check(p.T, err)
	cells, err := rowOf(page, words...)
	check(p.T, err)
	return page, cells[len(cells)-1]
}

func readPage(ctx context.Context, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("status %s", response.Status))
	}
	return string(text), err
}

// shell runs a command as a user pastes it: in a shell whose working directory differs from the archive's working
// directory.
func (p *hoursPage) shell(command string) string {
	p.Helper()
	sh := exec.CommandContext(p.Context(), "sh", "-c", command)
	sh.Dir, sh.Env = "/", append(os.Environ(), "PATH="+filepath.Dir(binary())+":"+os.Getenv("PATH"))
	out, err := sh.CombinedOutput()
	if err != nil {
		p.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// states compares the states of the filed hours in both sinks with the given list. The list is sorted by time and
// separated by commas.
func (p *hoursPage) states(want string) {
	p.Helper()
	for _, books := range []string{p.folder, p.db} {
		out, err := exec.CommandContext(p.Context(), binary(), "hours", "--books="+books, "--from="+p.from.Format("2006-01-02T15"), "--to="+p.to.Format("2006-01-02T15"), "-o", "csv").CombinedOutput()
		var all []string
		for line := range strings.Lines(string(out)) {
			if cells := strings.Split(line, ","); cells[0] == "east" {
				all = append(all, cells[1])
			}
		}
		if got := strings.Join(all, ","); got != want {
			p.Errorf("%s has the states %s, want %s: %v\n%s", books, got, want, err, out)
		}
	}
}

// steadyFleet returns a store with the record of eight nodes with one GPU each, divided into two halves.
func steadyFleet(from, until time.Time) *foldtest.Store {
	s := foldtest.NewStore()
	for at := from.Add(7 * time.Second); at.Before(until); at = at.Add(time.Minute) {
		for i := range 8 {
			add := func(value float64, metric string, labels ...string) {
				s.Add(at, value, metric, append(labels, "cluster", "east", "node", fmt.Sprint("n", i), "half", string("ab"[i%2]))...)
			}
			gpu := fmt.Sprint("GPU-", i)
			add(1, "up", "job", "gpuledger-record")
			add(1, "gpuledger_placement_info", "UUID", gpu, "serial", gpu)
			add(200*at.Sub(from).Seconds(), "gpuledger_board_energy_joules_total", "UUID", gpu)
			add(float64(from.Unix()), "gpuledger_board_created_timestamp_seconds", "UUID", gpu)
		}
	}
	return s
}

// TestHoursPage pastes the commands on the page of hours into a shell until all hours are complete in a folder and in a
// database. The commands must contain the paths of the password file, the key and the archive's files. The page must
// not contain the password itself.
func TestHoursPage(t *testing.T) {
	group := program.OpenFor(t)
	now := time.Now().UTC()
	p := &hoursPage{T: t, group: group, from: now.Truncate(time.Hour).Add(-6 * time.Hour), folder: group.Path("it's a folder"), db: "sqlite:" + group.Path("gpuledger.db")}
	p.to = p.from.Add(3 * time.Hour)
	var repaired atomic.Bool
	api := foldtest.API{Store: steadyFleet(p.from, now), Hidden: func(labels map[string]string, at time.Time) bool {
		return labels["half"] == "b" && !repaired.Load() && at.After(p.from.Add(time.Hour)) && !at.After(p.from.Add(2*time.Hour))
	}}
	const password = "pa55-of-the-store"
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, given, _ := r.BasicAuth(); given != password {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		api.ServeHTTP(w, r)
	}))
	defer store.Close()
	p.store = store.URL
	check(t, os.WriteFile(group.Path("http.yaml"), []byte("basic_auth: {username: archive, password: "+password+"}\n"), 0o600))
	p.openssl("genpkey", "-algorithm", "ed25519", "-out", group.Path("chain.pem"))
	p.chain = []string{"--chain.key=chain.pem", "--chain.publish=file:checkpoints.jsonl"}

	page, command := p.pasted("|folder|east|", "|silent_nodes|")
	if _, err := rowOf(page, "|sqlite|east|", "|silent_nodes|", p.from.Add(time.Hour).Format("2006-01-02 15:04")); err != nil {
		t.Error(err)
	}
	if !strings.Contains(page, "stop the program, run the command") || strings.Contains(page, password) {
		t.Errorf("the page has no notice about the locked folder, or contains a password:\n%s", page)
	}
	p.states("complete,missing,complete")
	p.shell(command)
	p.states("complete,gaps,complete")

	repaired.Store(true)
	_, command = p.pasted("|gaps|", "once --again")
	p.shell(command)
	p.states("complete")
}

func (p *hoursPage) openssl(args ...string) {
	p.Helper()
	if out, err := exec.CommandContext(p.Context(), "openssl", args...).CombinedOutput(); err != nil {
		p.Fatalf("openssl: %v\n%s", err, out)
	}
}
