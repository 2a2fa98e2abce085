//go:build e2e

package archive_test

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/test/certificate"
)

// witness is a server that stores all checkpoints that it receives over TLS.
type witness struct {
	mu    sync.Mutex
	lines string
}

func (w *witness) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Method == http.MethodGet {
		_, _ = io.WriteString(out, w.lines)
		return
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		out.WriteHeader(http.StatusBadRequest)
		return
	}
	w.lines += string(text)
}

func (w *witness) newest(t *testing.T) map[string]int {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make(map[string]int)
	for line := range strings.Lines(w.lines) {
		var c struct {
			Sink, Cluster string
			Sequence      int
		}
		check(t, json.Unmarshal([]byte(line), &c))
		all[c.Sink+" "+c.Cluster] = max(all[c.Sink+" "+c.Cluster], c.Sequence)
	}
	return all
}

type witnessed struct {
	*testing.T
	*witness
	dir, url, store string
	books           string // folder with the files of the test
}

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

func newWitnessed(t *testing.T) *witnessed {
	dir := t.TempDir()
	w := &witnessed{T: t, witness: new(witness), dir: dir, books: filepath.Join(dir, "books")}
	for _, name := range []string{"own", "other"} {
		check(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		certificate.Write(t, filepath.Join(dir, name), "127.0.0.1")
		check(t, os.WriteFile(filepath.Join(dir, name+".yaml"), []byte("tls_config: {ca_file: "+filepath.Join(dir, name, "cert.pem")+"}\n"), 0o600))
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "own", "cert.pem"), filepath.Join(dir, "own", "key.pem"))
	check(t, err)
	server := httptest.NewUnstartedServer(w.witness)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	w.url = server.URL + "/checkpoints"
	store := httptest.NewServer(foldtest.API{Store: steadyFleet(began, began.Add(5*time.Hour)), Hidden: func(labels map[string]string, at time.Time) bool {
		return labels["half"] == "b" && at.After(began.Add(2*time.Hour)) && !at.After(began.Add(3*time.Hour))
	}})
	t.Cleanup(store.Close)
	w.store = store.URL
	keys(t, dir)
	return w
}

func (w *witnessed) run(ca string, args ...string) (string, error) {
	w.Helper()
	out, err := exec.CommandContext(w.Context(), binary(), append(args, "--chain.http.config.file="+filepath.Join(w.dir, ca+".yaml"))...).CombinedOutput()
	return string(out), err
}

func (w *witnessed) change(status int, ca string, args ...string) string {
	w.Helper()
	out, err := w.run(ca, append(args, "--folder="+w.books, "--chain.key="+filepath.Join(w.dir, "chain.pem"), "--chain.publish="+w.url)...)
	got := 0
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		got, err = exit.ExitCode(), nil
	}
	if err != nil || got != status {
		w.Fatalf("%v: exit status %d, want %d, error %v\n%s", args, got, status, err, out)
	}
	return out
}

// expect checks that the witness has the last entry of each cluster's chain. The command verify must print the number
// of entries, and no notice.
func (w *witnessed) expect(clusters ...string) {
	w.Helper()
	out, err := w.run("own", "verify", "--chain", "--books="+w.books, "--public-key="+filepath.Join(w.dir, "public.pem"), "--witness="+w.url, "-o", "csv")
	if err != nil || strings.Contains(out, "no checkpoint was published") {
		w.Fatalf("verify: %v\n%s", err, out)
	}
	newest := w.newest(w.T)
	for _, cluster := range clusters {
		if want := fmt.Sprintf(",%d,%[1]d,", newest["folder "+cluster]); newest["folder "+cluster] == 0 || !strings.Contains(out, "\n"+cluster+",") || !strings.Contains(out, want) {
			w.Errorf("the witness has the checkpoints %v\n%s", newest, out)
		}
	}
}

// TestWitness checks that the program publishes the chain's checkpoint over TLS after each command that changes the
// chain. If another CA has signed the server's certificate, the program must send nothing.
func TestWitness(t *testing.T) {
	t.Parallel()
	w := newWitnessed(t)
	file := []string{"once", "--store.url=" + w.store, "--from=2026-03-01T00", "--until=2026-03-01T05"}
	const advice = "set tls_config.ca_file in the file of --chain.http.config.file"
	out := w.change(1, "other", file...)
	if !strings.Contains(out, advice) || len(w.newest(t)) != 0 {
		t.Errorf("the witness has %v, output with a wrong CA:\n%s", w.newest(t), out)
	}
	w.change(0, "own", "accept", "east", "--store.url="+w.store, "--from=2026-03-01T02", "--to=2026-03-01T03", "--reason=outage")
	w.expect("east")
	w.change(0, "own", append(file, "--until=2026-03-01T04", "--again")...)
	accepted := w.newest(t)["folder east"]
	w.change(0, "own", "prune", "--before=2026-04-01", "--dry-run")
	if got := w.newest(t)["folder east"]; got != accepted {
		t.Errorf("a dry run published entry %d", got)
	}
	w.change(0, "own", "prune", "--before=2026-04-01")
	if got := w.newest(t)["folder east"]; got <= accepted {
		t.Errorf("the witness has entry %d after prune, %d before", got, accepted)
	}
	w.expect("east")
	w.change(0, "own", "rename-cluster", "east", "west")
	w.expect("east", "west")
	if out := w.change(1, "other", "rename-cluster", "west", "north"); !strings.Contains(out, "are filed as north") || !strings.Contains(out, "the hours were changed") || !strings.Contains(out, advice) {
		t.Errorf("output with a wrong CA:\n%s", out)
	}
}

// TestWitnessOfTwo sends checkpoints from two archives with equal names of sinks and clusters to one witness. The error
// message must mention two archives as a possible cause, not only an attack. The flag --chain.name must separate the
// archives.
func TestWitnessOfTwo(t *testing.T) {
	t.Parallel()
	w := newWitnessed(t)
	first, second := w.books, w.books+"-2"
	file := func(books, until string, more ...string) {
		w.books = books
		w.change(0, "own", append([]string{"once", "--store.url=" + w.store, "--from=2026-03-01T00", "--until=" + until}, more...)...)
	}
	verify := func(more ...string) (string, error) {
		return w.run("own", append([]string{"verify", "--chain", "--books=" + first, "--public-key=" + filepath.Join(w.dir, "public.pem"), "--witness=" + w.url}, more...)...)
	}
	file(first, "2026-03-01T01")
	file(second, "2026-03-01T01")
	if out, err := verify(); err == nil || !strings.Contains(out, "or another archive publishes checkpoints under the same names: set --chain.name") {
		t.Errorf("verify: %v\n%s", err, out)
	}
	file(first, "2026-03-01T02", "--chain.name=first")
	file(second, "2026-03-01T02", "--chain.name=second")
	if out, err := verify("--chain.sink=first/folder"); err != nil || strings.Contains(out, "no checkpoint was published") {
		t.Errorf("verify with the name: %v\n%s", err, out)
	}
	if out, err := verify(); err == nil || !strings.Contains(out, "select one sink with --chain.sink") {
		t.Errorf("verify without a name: %v\n%s", err, out)
	}
}
