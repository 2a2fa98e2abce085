package webhook_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/manifest"
	"github.com/gpuledger/gpuledger/internal/archive/permanent"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/archive/webhook"
	"github.com/gpuledger/gpuledger/internal/event"
	"github.com/gpuledger/gpuledger/test/fatal"
	"github.com/gpuledger/gpuledger/test/golden"
	"github.com/gpuledger/gpuledger/test/pipes"
)

var noon = sinktest.Noon

var check = fatal.If

// receiver records requests. It answers the first requests with the functions in script, and later requests with
// success.
type receiver struct {
	mu       sync.Mutex
	script   []func(w http.ResponseWriter)
	requests []request
}

type request struct {
	header http.Header
	body   string
	at     time.Time
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, got *http.Request) {
	body := io.Reader(got.Body)
	if got.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(got.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	text, err := io.ReadAll(body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.requests = append(r.requests, request{got.Header, string(text), time.Now()})
	var next func(w http.ResponseWriter)
	if len(r.script) > 0 {
		next, r.script = r.script[0], r.script[1:]
	}
	r.mu.Unlock()
	if next != nil {
		next(w)
	}
}

func config(url string) webhook.Config {
	return webhook.Config{URL: url, Format: "ndjson", Batch: 1000, Timeout: 30 * time.Second, Memory: &manifest.Manifest{}}
}

func open(t *testing.T, c webhook.Config) *webhook.Sink {
	t.Helper()
	s, err := webhook.Open(c)
	check(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestRows(t *testing.T) {
	r := &receiver{}
	server := httptest.NewServer(r)
	defer server.Close()
	c := config(server.URL)
	c.Batch, c.TokenFile = 2, write(t, "secret\n")
	s := open(t, c)
	h := sinktest.Hour(noon, 7)
	h.GPUs[0].First, h.Workloads[0].Name = time.Time{}, "bytes \xff\x00 <>&\u2028"
	check(t, s.Replace(t.Context(), h))
	var bodies []string
	keys := make(map[string]bool)
	for _, got := range r.requests {
		bodies = append(bodies, got.body)
		keys[got.header.Get("Idempotency-Key")] = true
		if got.header.Get("Authorization") != "Bearer secret" || got.header.Get("Content-Type") != "application/x-ndjson" || !strings.HasPrefix(got.header.Get("User-Agent"), "gpuledger-archive/") {
			t.Errorf("headers are %v", got.header)
		}
	}
	golden.Check(t, "rows.txt", []byte(strings.Join(bodies, "== next batch\n")))
	if len(keys) != 3 {
		t.Errorf("%d idempotency keys, want 3", len(keys))
	}

	r.requests = nil
	check(t, open(t, c).Replace(t.Context(), h))
	revised := *h
	revised.Revision = 2
	check(t, s.Replace(t.Context(), &revised))
	for i, got := range r.requests {
		if known := keys[got.header.Get("Idempotency-Key")]; known != (i < 3) {
			t.Errorf("request %d after the first hour: the key was used before: %t", i, known)
		}
	}
}

// TestGpuid checks the arrays of serial numbers. They must satisfy the unique key in gpuid's database. An array must
// contain a board with two GPUs only once, even if the second GPU is scraped later.
func TestGpuid(t *testing.T) {
	r := &receiver{}
	server := httptest.NewServer(r)
	defer server.Close()
	c := config(server.URL)
	c.Format = "gpuid"
	h := sinktest.Hour(noon, 7)
	other := h.GPUs[0]
	other.Node, other.Machine, other.SystemUUID, other.ChassisSerial = "b", "", "sys", "C1"
	unseen, unknown := other, other
	unseen.Scrapes, unknown.Serial = 0, ""
	second := h.GPUs[0]
	second.UUID, second.Last = "second", second.Last.Add(time.Second)
	h.GPUs = append(h.GPUs, second, other, unseen, unknown)
	check(t, open(t, c).Replace(t.Context(), h))
	want := []string{
		`[{"cluster":"east/1","node":"a","machine":"vm-1","source":"gpuledger","chassis":"","gpu":"S1","time":"2026-03-01T13:00:01Z"}]`,
		`[{"cluster":"east/1","node":"b","machine":"sys","source":"gpuledger","chassis":"C1","gpu":"S1","time":"2026-03-01T13:00:00Z"}]`,
	}
	for i, got := range r.requests {
		if i >= len(want) || got.body != want[i] || got.header.Get("Content-Type") != "application/json" || got.header.Get("X-Records-Count") != "1" || got.header.Get("X-Timestamp") != "2026-03-01T13:00:00Z" {
			t.Errorf("request %d has %s with %v", i, got.body, got.header)
		}
	}
	if len(r.requests) != 2 {
		t.Errorf("%d requests, want 2", len(r.requests))
	}
}

// failing runs a test in a synctest bubble. script contains the first responses of the receiver.
func failing(t *testing.T, script []func(w http.ResponseWriter), dial func() error, test func(t *testing.T, s *webhook.Sink, r *receiver)) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{script: script}
		listener := make(pipes.Listener)
		server := &http.Server{Handler: r}
		go func() { _ = server.Serve(listener) }()
		c := config("http://receiver.example.com/rows?key=hunter2")
		transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if err := dial(); err != nil {
				return nil, err
			}
			return listener.Dial(ctx, network, address)
		}}
		c.Transport = transport
		s := open(t, c)
		test(t, s, r)
		check(t, s.Close())
		check(t, server.Close())
		<-time.After(time.Hour) // the fake clock advances until all handlers have ended
	})
}

func answer(status int, header ...string) func(w http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		if len(header) > 0 {
			w.Header().Set("Retry-After", header[0])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "the reason")
	}
}

func repeat(n int, step func(w http.ResponseWriter)) (script []func(w http.ResponseWriter)) {
	for range n {
		script = append(script, step)
	}
	return script
}

func TestRetries(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	always := func() error { return nil }
	hang := func(http.ResponseWriter) { <-time.After(time.Minute) }
	date := time.Date(2000, 1, 1, 0, 2, 0, 0, time.UTC).Format(http.TimeFormat) // the clock of synctest starts at midnight
	down := func(n int) func() error {
		return func() error {
			if n--; n >= 0 {
				return refused
			}
			return nil
		}
	}
	tests := []struct {
		name     string
		script   []func(w http.ResponseWriter)
		dial     func() error
		want     string // part of the error; empty if there is no error
		requests int
		min, max time.Duration
	}{
		{"accepted", repeat(1, answer(204)), always, "", 1, 0, 0},
		{"errors of the server", repeat(3, answer(500)), always, "", 4, 3500 * time.Millisecond, 7 * time.Second},
		{"down for a minute", nil, down(6), "", 1, 31 * time.Second, 63 * time.Second},
		{"down", nil, down(1000), "8 attempts: post to receiver.example.com: dial: connection refused", 0, time.Minute, 3 * time.Minute},
		{"timeout", []func(w http.ResponseWriter){hang}, always, "", 2, 30 * time.Second, 31 * time.Second},
		{"too many requests", repeat(1, answer(429, "90")), always, "", 2, 90 * time.Second, 90 * time.Second},
		{"until a date", repeat(1, answer(503, date)), always, "", 2, 2 * time.Minute, 2 * time.Minute},
		{"a date in the past", repeat(1, answer(503, "Fri, 31 Dec 1999 00:00:00 GMT")), always, "", 2, 0, time.Second},
		{"an invalid wait", repeat(1, answer(503, "soon")), always, "", 2, 0, time.Second},
		{"a negative wait", repeat(1, answer(503, "-1")), always, "", 2, 0, time.Second},
		{"a long wait", repeat(1, answer(503, "9999999999")), always, "requests a retry only after", 1, 0, 0},
		{"always 503", repeat(100, answer(503)), always, `8 attempts: receiver.example.com returns 503 Service Unavailable: "the reason"`, 8, time.Minute, 3 * time.Minute},
		{"rejected", repeat(1, answer(400)), always, `returns 400 Bad Request: "the reason"`, 1, 0, 0},
		{"unauthorized", repeat(1, answer(401)), always, "returns 401", 1, 0, 0},
		{"a temporary conflict", repeat(2, answer(409)), always, "", 3, time.Second, 4 * time.Second},
		{"always a conflict", repeat(100, answer(409)), always, `8 attempts: receiver.example.com returns 409 Conflict: "the reason"`, 8, time.Minute, 3 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			failing(t, tt.script, tt.dial, func(t *testing.T, s *webhook.Sink, r *receiver) {
				began := time.Now()
				h := sinktest.Hour(noon, 7)
				err := s.Replace(t.Context(), h)
				if (tt.want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2")) {
					t.Errorf("error is %v, want an error with %q", err, tt.want)
				}
				if waited := time.Since(began); waited < tt.min || waited > tt.max {
					t.Errorf("took %s, want %s to %s", waited, tt.min, tt.max)
				}
				if rejects := strings.Contains(tt.want, "400") || strings.Contains(tt.want, "409"); permanent.Is(err) != rejects {
					t.Errorf("error is permanent: %t, want %t", permanent.Is(err), rejects)
				}
				keys := make(map[string]bool)
				for _, got := range r.requests {
					keys[got.header.Get("Idempotency-Key")] = true
				}
				if len(r.requests) != tt.requests || len(keys) > 1 {
					t.Errorf("%d requests with %d keys, want %d with the same", len(r.requests), len(keys), tt.requests)
				}
				filed, err := s.Filed(t.Context(), h.Cluster, noon)
				check(t, err)
				if (filed == h.Filed) != (tt.want == "") {
					t.Errorf("manifest has %+v", filed)
				}
			})
		})
	}
}

// TestStop checks that a cancelled context ends the wait between two attempts. The error must contain the reason for
// the wait.
func TestStop(t *testing.T) {
	failing(t, repeat(100, answer(503)), func() error { return nil }, func(t *testing.T, s *webhook.Sink, _ *receiver) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		if err := s.Replace(ctx, sinktest.Hour(noon, 7)); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "503") || time.Since(began) != 5*time.Second {
			t.Errorf("error is %v after %s", err, time.Since(began))
		}
	})
}

// TestRedirect checks that the sink follows no redirect. Otherwise the token could reach another host.
func TestRedirect(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		other := &receiver{}
		target := httptest.NewServer(other)
		defer target.Close()
		r := &receiver{script: repeat(1, func(w http.ResponseWriter) {
			w.Header().Set("Location", target.URL)
			w.WriteHeader(status)
		})}
		server := httptest.NewServer(r)
		defer server.Close()
		c := config(server.URL)
		c.TokenFile = write(t, "secret")
		err := open(t, c).Replace(t.Context(), sinktest.Hour(noon, 7))
		if err == nil || !strings.Contains(err.Error(), "redirects") || len(other.requests) > 0 {
			t.Errorf("%d: error is %v, %d requests to the other host", status, err, len(other.requests))
		}
	}
}

// TestTLS checks that the sink verifies the server with the given CAs. If the server's CA is unknown, the sink must not
// try again.
func TestTLS(t *testing.T) {
	r := &receiver{}
	server := httptest.NewTLSServer(r)
	defer server.Close()
	server.Config.ErrorLog = nil
	c := config(server.URL)
	c.TokenFile = write(t, "secret")
	if err := open(t, c).Replace(t.Context(), sinktest.Hour(noon, 7)); err == nil || !strings.Contains(err.Error(), "certificate") || strings.Contains(err.Error(), "attempts") {
		t.Errorf("error for an unknown CA is %v", err)
	}
	c.CAFile = write(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	check(t, open(t, c).Replace(t.Context(), sinktest.Hour(noon, 7)))
	if len(r.requests) != 1 {
		t.Errorf("%d requests, want 1", len(r.requests))
	}
}

// TestManifest checks that a new sink can list the sent hours. With a file, it must also list them after a restart.
func TestManifest(t *testing.T) {
	server := httptest.NewServer(&receiver{})
	defer server.Close()
	h := sinktest.Hour(noon, 7)
	for _, path := range []string{"", filepath.Join(t.TempDir(), "filed")} {
		c := config(server.URL)
		c.Manifest = path
		s := open(t, c)
		check(t, s.Replace(t.Context(), h))
		check(t, s.Close())
		if path != "" {
			c.Memory = &manifest.Manifest{}
		}
		filed, err := open(t, c).Filed(t.Context(), h.Cluster, noon)
		if err != nil || filed != h.Filed {
			t.Errorf("manifest %q has %+v, error %v", path, filed, err)
		}
	}
}

// TestOpen checks the errors for an invalid configuration. They must contain no secret.
func TestOpen(t *testing.T) {
	token := write(t, "secret\n")
	tests := []struct {
		name   string
		change func(c *webhook.Config)
		want   string // empty if there is no error
	}{
		{"token by https", func(c *webhook.Config) { c.TokenFile = token }, ""},
		{"token by http to loopback", func(c *webhook.Config) { c.TokenFile, c.URL = token, "http://[::1]:80/" }, ""},
		{"token by http to localhost", func(c *webhook.Config) { c.TokenFile, c.URL = token, "http://localhost" }, ""},
		{"no token by http", func(c *webhook.Config) { c.URL = "http://receiver.example.com" }, ""},
		{"token by http", func(c *webhook.Config) { c.TokenFile, c.URL = token, "http://receiver.example.com" }, "https"},
		{"token by http to a name", func(c *webhook.Config) { c.TokenFile, c.URL = token, "http://127.0.0.1.example.com" }, "https"},
		{"password", func(c *webhook.Config) { c.URL = "https://user:hunter2@receiver.example.com" }, "without credentials"},
		{"invalid URL", func(c *webhook.Config) { c.URL = "https://hunter2:x:y" }, "must be a URL"},
		{"no host", func(c *webhook.Config) { c.URL = "receiver.example.com" }, "must be a URL"},
		{"format", func(c *webhook.Config) { c.Format = "xml" }, "ndjson or gpuid"},
		{"batch", func(c *webhook.Config) { c.Batch = 0 }, "--http.batch"},
		{"timeout", func(c *webhook.Config) { c.Timeout = 0 }, "--http.timeout"},
		{"no token file", func(c *webhook.Config) { c.TokenFile = "/nonexistent" }, "/nonexistent"},
		{"empty token", func(c *webhook.Config) { c.TokenFile = write(t, "\n") }, "bearer token"},
		{"two lines", func(c *webhook.Config) { c.TokenFile = write(t, "hunter2\nhunter2") }, "one line"},
		{"no CA", func(c *webhook.Config) { c.CAFile = token }, "no PEM certificate"},
		{"manifest", func(c *webhook.Config) { c.Manifest = write(t, "hunter2\n") }, "line 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := config("https://receiver.example.com")
			tt.change(&c)
			s, err := webhook.Open(c)
			if (tt.want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("error is %v, want an error with %q", err, tt.want)
			}
			if err == nil {
				check(t, s.Close())
			}
		})
	}
}

// TestAppend checks the batches with the rows of events. If a failed batch is sent again, it must have the same key.
func TestAppend(t *testing.T) {
	r := &receiver{script: []func(http.ResponseWriter){nil, answer(http.StatusBadGateway)}}
	server := httptest.NewServer(r)
	defer server.Close()
	c := config(server.URL)
	c.Batch, c.Manifest = 2, write(t, "")
	hours := open(t, c)
	s, err := webhook.OpenEvents(c) // the sink for hours has already opened the manifest
	check(t, err)
	check(t, hours.Replace(t.Context(), &table.Hour{Cluster: "east", Start: noon, Filed: table.Filed{Revision: 1, Digest: "d"}}))
	r.requests = nil
	var events []event.Event
	for _, id := range []string{"1", "2", "3"} {
		events = append(events, event.Event{Kind: "phase", ID: id, At: noon, Details: json.RawMessage(`{"to":"Running"}`)})
	}
	check(t, s.Append(t.Context(), table.Events, table.EventRows(table.Events, "east", table.Place(events, noon))))
	line := func(id string) string {
		return `{"table":"events","cluster":"east","hour":"2026-03-01T12:00:00.000Z","at":"2026-03-01T12:00:00.000Z","id":"` + id + `","event":"phase","namespace":"","pod":"","pod_uid":"","resource_version":"","node":"","owner_kind":"","owner_name":"","workload_kind":"","workload_name":"","workload_uid":"","detail":"{\"to\":\"Running\"}","filed_by":""}` + "\n"
	}
	var bodies, keys []string
	for _, got := range r.requests {
		bodies, keys = append(bodies, got.body), append(keys, got.header.Get("Idempotency-Key"))
	}
	if diff := cmp.Diff([]string{line("1") + line("2"), line("1") + line("2"), line("3")}, bodies); diff != "" {
		t.Fatalf("bodies (-want +got):\n%s", diff)
	}
	if keys[0] != keys[1] || keys[0] == keys[2] || keys[0] == "" {
		t.Errorf("idempotency keys are %q", keys)
	}
}
