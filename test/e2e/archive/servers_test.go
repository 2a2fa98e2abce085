//go:build e2e

package archive_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// These environment variables contain the folders of the servers' programs.
const (
	oldestEnv   = "GPULEDGER_E2E_PROMETHEUS_OLDEST"
	thanosEnv   = "GPULEDGER_E2E_THANOS"
	victoriaEnv = "GPULEDGER_E2E_VICTORIA"
)

func programs(t *testing.T, env string) string {
	t.Helper()
	dir := os.Getenv(env)
	if dir == "" {
		t.Fatalf("%s is not set: run the tests with make e2e-archive", env)
	}
	return dir
}

func serve(t *testing.T, group *program.Group, name string, s *foldtest.Store, config string) prometheus.Server {
	t.Helper()
	server := loaded(t, prometheus.Env, group, name, s.OpenMetrics())
	server.Config = []byte(config)
	return started(t, server)
}

// simulated serves the samples from this process. A real Prometheus would need several times as much processor time.
// TestExact compares both.
func simulated(t *testing.T, s *foldtest.Store) (url string) {
	t.Helper()
	server := httptest.NewServer(foldtest.API{Store: s})
	t.Cleanup(server.Close)
	return server.URL
}

// loaded returns a Prometheus that contains the samples and is not started yet. env names the folder of its programs.
func loaded(t *testing.T, env string, group *program.Group, name string, samples []byte) prometheus.Server {
	t.Helper()
	server := prometheus.Server{
		Programs: prometheus.Programs(programs(t, env)), Group: group, Name: name, Address: program.AddressFor(t),
		Flags: []string{"--storage.tsdb.retention.time=100y", "--storage.tsdb.min-block-duration=2h", "--storage.tsdb.max-block-duration=2h"},
	}
	check(t, server.Load(t.Context(), samples))
	return server
}

func started(t *testing.T, server prometheus.Server) prometheus.Server {
	t.Helper()
	_, err := server.Start(t.Context())
	check(t, err)
	return server
}

type thanos struct {
	t     *testing.T
	group *program.Group
}

func (n thanos) path() string { return filepath.Join(programs(n.t, thanosEnv), "thanos") }

func (n thanos) component(name, kind string, args ...string) (p *program.Program, grpc, url string) {
	n.t.Helper()
	http, grpc := program.AddressFor(n.t), program.AddressFor(n.t)
	p, err := n.group.Start(name, n.path(), append([]string{kind, "--http-address=" + http, "--grpc-address=" + grpc}, args...)...)
	check(n.t, err)
	check(n.t, p.Ready(n.t.Context(), "http://"+http+"/-/ready"))
	return p, grpc, "http://" + http
}

func (n thanos) sidecar(s prometheus.Server) (*program.Program, string) {
	n.t.Helper()
	p, grpc, _ := n.component("sidecar-"+s.Name, "sidecar", "--prometheus.url="+s.URL(), "--tsdb.path="+n.group.Path(s.Name))
	return p, grpc
}

// query waits until the Thanos Query has found all endpoints.
func (n thanos) query(endpoints []string, args ...string) string {
	n.t.Helper()
	for _, grpc := range endpoints {
		args = append(args, "--endpoint="+grpc)
	}
	p, _, url := n.component("query", "query", args...)
	want := strings.Count(strings.Join(args, " "), "--endpoint")
	check(n.t, p.Wait(n.t.Context(), func() error { return n.found(url, want) }))
	return url
}

func (n thanos) found(url string, want int) error {
	var stores struct {
		Data map[string][]struct{ LastError any }
	}
	if err := get(n.t.Context(), url+"/api/v1/stores", &stores); err != nil {
		return err
	}
	got := 0
	for _, all := range stores.Data {
		for _, s := range all {
			if s.LastError == nil {
				got++
			}
		}
	}
	if got != want {
		return fmt.Errorf("the Query has %d components, want %d", got, want)
	}
	return nil
}

// get decodes the JSON unless into is nil.
func get(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// bucket returns the flag for a folder that Thanos uses as an object store.
func (n thanos) bucket() string {
	path := n.group.Path("bucket")
	check(n.t, os.MkdirAll(path, 0o755))
	return fmt.Sprintf("--objstore.config={type: FILESYSTEM, config: {directory: %s}}", path)
}

func (n thanos) start(command string, args ...string) *program.Program {
	n.t.Helper()
	p, err := n.group.Start(command, n.path(), append([]string{"tools", "bucket", n.bucket(), command}, args...)...)
	check(n.t, err)
	return p
}

func victoria(t *testing.T, group *program.Group, kind, address string, args ...string) *program.Program {
	t.Helper()
	p, err := group.Start(kind, filepath.Join(programs(t, victoriaEnv), kind), append([]string{"-httpListenAddr=" + address}, args...)...)
	check(t, err)
	check(t, p.Ready(t.Context(), "http://"+address+"/health"))
	return p
}

func insert(t *testing.T, url string, s *foldtest.Store, from, until time.Time) {
	t.Helper()
	response, err := http.Post(url+"/api/v1/import/prometheus", "text/plain", strings.NewReader(s.Exposition(from, until)))
	check(t, err)
	defer response.Body.Close()
	if text, _ := io.ReadAll(response.Body); response.StatusCode/100 != 2 {
		t.Fatalf("import: %s: %s", response.Status, text)
	}
}

func count(t *testing.T, url, selector string, after, until time.Time) int {
	t.Helper()
	found, err := prometheus.Query(t.Context(), url, fmt.Sprintf("sum(count_over_time(%s[%ds]))", selector, int(until.Sub(after).Seconds())), until)
	check(t, err)
	if len(found) == 0 {
		return 0
	}
	return int(found[0].Value)
}
