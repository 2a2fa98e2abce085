//go:build realtime

package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	// The tests run the exporter's binary. Because of this import, go test does not use a cached result after a change
	// to the binary. TestMain calls program.Build before go test records the files that a test reads.
	_ "github.com/gpuledger/gpuledger/cmd/gpuledger"
	"github.com/gpuledger/gpuledger/internal/host"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/internal/status"
	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/program"
)

// binary, library and client are the paths of the shipped exporter, the fake driver and the fake DCGM library.
var binary, library, client string

func TestMain(m *testing.M) {
	flag.Parse()
	// The parallel subtests wait for real time to pass and need little processor time. With more than ten subtests at
	// the same time, a busy machine would delay the ticks so much that accounts have gaps.
	if err := flag.Set("test.parallel", "10"); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "gpuledger")
	if err != nil {
		panic(err)
	}
	if err := program.Build(context.Background(), dir, "gpuledger"); err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "gpuledger")
	if library, err = fakes.Compile(dir); err != nil {
		panic(err)
	}
	if client, err = fakes.CompileDCGM(dir); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// The seed repeats the random choices of an earlier run.
var seed = flag.Uint64("seed", 0, "seed for random tests; 0 chooses a new seed in each run")

func seeded(t *testing.T) uint64 {
	s := *seed
	for s == 0 {
		s = rand.Uint64()
	}
	t.Logf("-seed=%d", s)
	return s
}

// A test that waits longer than this timeout fails. The timeout is long enough for a busy machine.
const hangTimeout = 10 * time.Minute

// The test fails after [hangTimeout].
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(hangTimeout); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("timeout: waited %v until %s", hangTimeout, what)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func newNode(t testing.TB, scenario string) *simnode.Node {
	t.Helper()
	sc, err := simnode.Lookup(scenario)
	if err != nil {
		t.Fatal(err)
	}
	return openNode(t, sc)
}

// uuids returns the UUIDs of all GPUs in a scenario, in the order of the scenario.
func uuids(t testing.TB, scenario string) []string {
	t.Helper()
	sc, err := simnode.Lookup(scenario)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, g := range sc.GPUs {
		out = append(out, g.UUID)
	}
	return out
}

func openNode(t testing.TB, sc simnode.Scenario) *simnode.Node {
	t.Helper()
	dir, err := os.MkdirTemp("", "node") // a short path, because it contains a socket
	if err != nil {
		t.Fatal(err)
	}
	n, err := simnode.Open(dir, sc, host.Now())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.RunLive(ctx, host.Now) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	})
	return n
}

type exporter struct {
	t   testing.TB
	cmd *exec.Cmd
	url string
	log string // path of its log

	// listening receives the exporter's listen address.
	listening chan string
	exited    chan struct{}
	// err is the result of Wait. It is valid when exited is closed.
	err error
}

// No driver call exceeds this timeout, even on a busy machine.
const unhurried = "--nvml.call-timeout=1m"

// start waits until the exporter is ready.
func start(t testing.TB, n *simnode.Node, flags ...string) *exporter {
	t.Helper()
	return run(t, n.Env(), onNode(n, flags...)...)
}

func onNode(n *simnode.Node, flags ...string) []string {
	return append(append(n.Flags(), "--nvml.library="+library), flags...)
}

// run starts the exporter with only the given environment and flags, and waits until it is ready. A later flag
// overrides an earlier flag.
func run(t testing.TB, env []string, flags ...string) *exporter {
	t.Helper()
	e := launch(t, env, flags...)
	select {
	case address := <-e.listening:
		e.url = "http://" + address
	case <-e.exited:
		t.Fatalf("exited at once: %v\n%s", e.err, strings.Join(e.logged(), "\n"))
	}
	eventually(t, "it is ready", func() bool {
		select {
		case <-e.exited:
			t.Fatalf("exited before it was ready: %v", e.err)
		default:
		}
		status, _ := e.get("/-/ready")
		return status == http.StatusOK
	})
	return e
}

// launch does not wait until the exporter is ready.
func launch(t testing.TB, env []string, flags ...string) *exporter {
	t.Helper()
	e := &exporter{t: t, listening: make(chan string, 1), exited: make(chan struct{})}
	e.cmd = exec.Command(binary, append([]string{"--web.listen-address=127.0.0.1:0", "--log.format=json"}, flags...)...)
	e.cmd.Env = env
	e.log = filepath.Join(t.TempDir(), "log")
	stderr, err := os.Create(e.log)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	e.cmd.Stderr = stderr
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go e.follow()
	go func() {
		e.err = e.cmd.Wait()
		close(e.exited)
	}()
	t.Cleanup(func() {
		_ = e.cmd.Process.Kill()
		<-e.exited
		if t.Failed() {
			t.Logf("log of gpuledger:\n%s", strings.Join(e.logged(), "\n"))
		}
	})
	return e
}

// follow reads the log, and sends the exporter's address to listening.
func (e *exporter) follow() {
	for {
		for _, text := range e.logged() {
			var line struct{ Msg, Address string }
			if json.Unmarshal([]byte(text), &line) == nil && line.Msg == "Listening on" {
				e.listening <- line.Address
				return
			}
		}
		select {
		case <-e.exited:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// logged reads the log from a file. From a pipe, a line could arrive later than a page that was served after this line.
func (e *exporter) logged() []string {
	log, _ := os.ReadFile(e.log)
	return strings.FieldsFunc(string(log), func(r rune) bool { return r == '\n' })
}

func (e *exporter) get(path string) (status int, body []byte) {
	e.t.Helper()
	response, err := http.Get(e.url + path)
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return response.StatusCode, body
}

type page = exposition.Page

func (e *exporter) scrape() page {
	e.t.Helper()
	return e.scrapeFrom("/metrics")
}

func (e *exporter) scrapeFrom(path string) page {
	e.t.Helper()
	return e.parse(e.body(path))
}

func (e *exporter) body(path string) []byte {
	e.t.Helper()
	status, body := e.get(path)
	if status != http.StatusOK {
		e.t.Fatalf("get %s: status %d: %s", path, status, body)
	}
	return body
}

func (e *exporter) parse(body []byte) page {
	e.t.Helper()
	p, err := exposition.Parse(bytes.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	return p
}

func (e *exporter) scrapeUntil(what string, ok func(page) bool) page {
	e.t.Helper()
	var p page
	eventually(e.t, what, func() bool {
		p = e.scrape()
		return ok(p)
	})
	return p
}

// atOneMoment returns pages and the status from the same snapshot. It repeats the requests if the snapshot changed in
// the meantime. The caller parses the pages, because parsing takes longer than the requests.
func (e *exporter) atOneMoment(paths ...string) (s status.Page, bodies [][]byte) {
	e.t.Helper()
	eventually(e.t, "all pages show the same snapshot", func() bool {
		s, bodies = e.served(), nil
		for _, path := range paths {
			bodies = append(bodies, e.body(path))
		}
		return e.served().Time.Equal(s.Time)
	})
	return s, bodies
}

func (e *exporter) served() (s status.Page) {
	e.t.Helper()
	if err := json.Unmarshal(e.body(status.Path), &s); err != nil {
		e.t.Fatal(err)
	}
	return s
}

// The accounts of each GPU must add up to the energy of its board, to the millijoule.
func checkBalance(t testing.TB, p page) {
	t.Helper()
	for _, uuid := range p.UUIDs() {
		of := map[string]string{"UUID": uuid}
		energy := p.Millijoules("gpuledger_gpu_energy_joules_total", of)
		accounts := p.Millijoules("gpuledger_container_energy_joules_total", of) +
			p.Millijoules("gpuledger_unattributed_energy_joules_total", of) +
			p.Millijoules("gpuledger_unit_energy_joules_total", of) +
			p.Millijoules("gpuledger_retired_energy_joules_total", of)
		if energy != accounts {
			t.Errorf("%s: the board counted %d mJ, but the accounts hold %d mJ", uuid, energy, accounts)
		}
	}
}
