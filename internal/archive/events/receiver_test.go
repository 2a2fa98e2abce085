package events_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/events"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/event"
)

const (
	phase    = `{"event":"phase","id":"u/phase/Running","at":"2026-03-01T12:30:00Z","namespace":"ml","pod":"p","pod_uid":"u","to":"Running"}` + "\n"
	snapshot = `{"event":"snapshot","id":"u/snapshot/7","at":"2026-03-01T12:30:00Z","namespace":"ml","pod":"p","pod_uid":"u","object":{"kind":"Pod"}}` + "\n"
	target   = event.Path + "?cluster=east"
)

// memory is a sink with the ids of its rows.
type memory struct {
	opened, closed int
	fault          error
	rows           map[string][]string // by table
}

func (m *memory) Append(_ context.Context, t table.Table, rows [][]any) error {
	if m.fault != nil {
		return m.fault
	}
	for _, row := range rows {
		m.rows[t.Name] = append(m.rows[t.Name], row[0].(string)+" "+row[3].(string))
		row[0] = "changed" // as a sink may do
	}
	return nil
}

func (m *memory) Close() error { m.closed++; return nil }

func (m *memory) destination(name string) events.Destination {
	m.rows = make(map[string][]string)
	return events.Destination{Name: name, Open: func(context.Context) (events.Sink, error) {
		m.opened++
		return m, m.fault
	}}
}

func post(r http.Handler, target, body string, header ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	return w
}

func compress(t *testing.T, text io.Reader) string {
	t.Helper()
	var body bytes.Buffer
	z := gzip.NewWriter(&body)
	if _, err := io.Copy(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return body.String()
}

// zeros is an endless text that compresses well.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
		if i%1000 == 0 {
			b[i] = '\n'
		}
	}
	return len(b), nil
}

// TestReceive checks which requests are filed, and the status of the others.
func TestReceive(t *testing.T) {
	zipped := []string{"Content-Encoding", "gzip"}
	both := compress(t, strings.NewReader(phase+snapshot))
	tests := []struct {
		name, target, body string
		header             []string
		status             int
		want               string // in the response
	}{
		{"text", target, phase + snapshot, nil, 200, ""},
		{"gzip", target, both, zipped, 200, ""},
		{"nothing", target, "", nil, 200, ""},
		{"no cluster", event.Path, phase, nil, 400, "cluster"},
		{"an invalid cluster", event.Path + "?cluster=%00", phase, nil, 400, "cluster"},
		{"an invalid line", target, phase + snapshot + "{}", nil, 400, "line 3: invalid event"},
		{"not gzip", target, phase, zipped, 400, "gzip"},
		{"damaged gzip", target, both[:40] + "damage" + both[46:], zipped, 400, ""},
		{"the start of gzip", target, both[:len(both)/2], zipped, 503, ""},
		{"another encoding", target, phase, []string{"Content-Encoding", "br"}, 415, "br"},
		{"a large body", target, strings.Repeat(" \n", 5<<20), nil, 413, "body has more than"},
		{"a gzip bomb", target, compress(t, io.LimitReader(zeros{}, 64<<20)), zipped, 413, "text has more than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := &memory{}, &memory{}
			r := events.New(events.Config{}, []events.Destination{a.destination("a"), b.destination("b")}, slog.New(slog.DiscardHandler))
			w := post(r, tt.target, tt.body, tt.header...)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("status %d: %s, want %d with %q", w.Code, w.Body, tt.status, tt.want)
			}
			want := map[string][]string{}
			if tt.status == 200 && tt.body != "" {
				want = map[string][]string{"events": {"east u/phase/Running"}, "snapshots": {"east u/snapshot/7"}}
			}
			for _, m := range []*memory{a, b} {
				if diff := cmp.Diff(want, m.rows); diff != "" {
					t.Errorf("rows (-want +filed):\n%s", diff)
				}
			}
		})
	}
}

// TestMethod checks that only POST is accepted.
func TestMethod(t *testing.T) {
	w := httptest.NewRecorder()
	events.New(events.Config{}, nil, slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("status %d", w.Code)
	}
}

// TestToken checks that requests without the current token are refused, and that none is valid while
// the file is missing or empty.
func TestToken(t *testing.T) {
	file, m := filepath.Join(t.TempDir(), "token"), &memory{}
	r := events.New(events.Config{Receive: true, TokenFile: file}, []events.Destination{m.destination("m")}, slog.New(slog.DiscardHandler))
	steps := []struct {
		file, header string
		status       int
	}{
		{"", "Bearer ", 401},
		{"one\n", "Bearer one", 200},
		{"one\n", "Bearer On", 401},
		{"one\n", "Bearer one ", 401},
		{"one\n", "Basic one", 401},
		{"one\n", "one", 401},
		{"one\n", "", 401},
		{"two", "Bearer one", 401},
		{"two", "Bearer two", 200},
	}
	if w := post(r, target, phase, "Authorization", "Bearer "); w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d without the file", w.Code)
	}
	for _, step := range steps {
		if err := os.WriteFile(file, []byte(step.file), 0o600); err != nil {
			t.Fatal(err)
		}
		if w := post(r, target, phase, "Authorization", step.header); w.Code != step.status {
			t.Errorf("token %q, authorization %q: status %d, want %d", step.file, step.header, w.Code, step.status)
		}
	}
	if n := len(m.rows["events"]); n != 2 {
		t.Errorf("%d events are filed, want 2", n)
	}
}

// TestSinkFails checks that a request fails until all sinks have its events, that a sink that fails
// is opened again, and that equal failures are logged once.
func TestSinkFails(t *testing.T) {
	a, b, log := &memory{}, &memory{}, new(bytes.Buffer)
	r := events.New(events.Config{}, []events.Destination{a.destination("a"), b.destination("b")}, slog.New(slog.NewTextHandler(log, nil)))
	for i, fault := range []error{nil, errors.New("no disk"), errors.New("no disk"), nil} {
		a.fault = fault
		w := post(r, target, phase)
		if ok := w.Code == http.StatusOK; ok != (fault == nil) || !ok && (w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "") {
			t.Errorf("request %d: status %d", i, w.Code)
		}
		if n := len(b.rows["events"]); n != i+1 {
			t.Errorf("request %d: %d events in the other sink, want %d", i, n, i+1)
		}
	}
	if len(a.rows["events"]) != 2 || a.opened != 3 || a.closed != 1 || b.opened != 1 || b.closed != 0 {
		t.Errorf("sinks are %+v and %+v", a, b)
	}
	if n := strings.Count(log.String(), "no disk"); n != 1 || !strings.Contains(log.String(), "filing events again") {
		t.Errorf("log:\n%s", log)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Run(ctx); err != nil || b.closed != 1 {
		t.Errorf("the sink is closed %d times, error %v", b.closed, err)
	}
}

// TestSlowSink checks that a sink that does not respond does not delay another one.
func TestSlowSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		r := events.New(events.Config{}, []events.Destination{
			{Name: "slow", Open: func(ctx context.Context) (events.Sink, error) { <-ctx.Done(); return nil, ctx.Err() }},
			m.destination("m"),
		}, slog.New(slog.DiscardHandler))
		go func() {
			time.Sleep(time.Second)
			synctest.Wait()
			if len(m.rows["events"]) != 1 || len(m.rows["snapshots"]) != 1 {
				t.Errorf("after a second the other sink has %v", m.rows)
			}
		}()
		if w := post(r, target, phase+snapshot); w.Code != http.StatusServiceUnavailable {
			t.Errorf("status %d, although a sink has no events", w.Code)
		}
	})
}

// TestConfig checks that a token alone is an error.
func TestConfig(t *testing.T) {
	for args, valid := range map[string]bool{"": true, "--events.receive": true, "--events.receive --events.token-file=t": true, "--events.token-file=t": false} {
		var c events.Config
		fs := flag.NewFlagSet("test", flag.ContinueOnError)
		c.Register(fs)
		if err := errors.Join(fs.Parse(strings.Fields(args)), c.Validate()); (err == nil) != valid {
			t.Errorf("%s: %v", args, err)
		}
	}
}
