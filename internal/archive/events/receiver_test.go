package events_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/archive/events"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/event"
)

const (
	phase    = `{"event":"phase","id":"u/phase/Running","at":"2026-03-01T12:30:00Z","namespace":"ml","pod":"p","pod_uid":"u","to":"Running"}` + "\n"
	snapshot = `{"event":"snapshot","id":"u/snapshot/7","at":"2026-03-01T12:30:00Z","namespace":"ml","pod":"p","pod_uid":"u","object":{"kind":"Pod"}}` + "\n"
	target   = event.Path + "?cluster=east"
)

type memory struct {
	mu             sync.Mutex
	opened, closed int
	fault          error
	rows           map[string][]string // ids by table
}

func (m *memory) fail(fault error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = fault
}

func (m *memory) filed() map[string][]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.rows)
}

func (m *memory) Append(_ context.Context, t table.Table, rows [][]any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault != nil {
		return m.fault
	}
	for _, row := range rows {
		m.rows[t.Name] = append(m.rows[t.Name], row[0].(string)+" "+row[3].(string))
		row[0] = "changed" // a sink may change its rows
	}
	return nil
}

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed++
	return nil
}

func (m *memory) destination(name string) events.Destination {
	m.rows = make(map[string][]string)
	return events.Destination{Name: name, Open: func(context.Context) (events.Sink, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
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
	check(t, z.Close())
	return body.String()
}

// zeros is an endless reader of zeros, which compress well.
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

func TestReceive(t *testing.T) {
	zipped := []string{"Content-Encoding", "gzip"}
	both := compress(t, strings.NewReader(phase+snapshot))
	tests := []struct {
		name, target, body string
		header             []string
		status             int
		want               string // part of the response
	}{
		{"text", target, phase + snapshot, nil, 200, ""},
		{"gzip", target, both, zipped, 200, ""},
		{"nothing", target, "", nil, 200, ""},
		{"no cluster", event.Path, phase, nil, 400, "cluster"},
		{"an invalid cluster", event.Path + "?cluster=%00", phase, nil, 400, "cluster"},
		{"an invalid line", target, phase + snapshot + "{}", nil, 400, "line 3: invalid event"},
		{"not gzip", target, phase, zipped, 400, "gzip"},
		{"damaged gzip", target, both[:40] + "damage" + both[46:], zipped, 400, ""},
		{"the start of gzip", target, both[:len(both)/2], zipped, 400, "unexpected EOF"},
		{"not gzip", target, "", zipped, 400, "gzip"},
		{"a long cluster", event.Path + "?cluster=" + strings.Repeat("A", 201), phase, nil, 400, "at most 200 bytes"},
		{"an escaped cluster", event.Path + "?cluster=" + strings.Repeat("%25", 67), phase, nil, 400, "at most 200 bytes"},
		{"a cluster of emoji", event.Path + "?cluster=" + strings.Repeat("%F0%9F%98%80", 17), phase, nil, 400, "at most 200 bytes"},
		{"many events", target, strings.Repeat(phase, 20_001), nil, 413, "more than 20000 events"},
		{"a large number", target, strings.Replace(phase, `"to"`, `"n":1e999999,"to"`, 1), nil, 400, "number"},
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
			if tt.status == http.StatusOK && tt.body != "" {
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

// If the only sink fails, the request must fail. The sink must be opened again, and equal failures must be logged once.
func TestSinkFails(t *testing.T) {
	m, log := &memory{}, new(bytes.Buffer)
	r := events.New(events.Config{}, []events.Destination{m.destination("m")}, slog.New(slog.NewTextHandler(log, nil)))
	for i, fault := range []error{nil, errors.New("no disk"), errors.New("no disk"), nil} {
		m.fault = fault
		w := post(r, target, phase)
		if ok := w.Code == http.StatusOK; ok != (fault == nil) || !ok && (w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "") {
			t.Errorf("request %d: status %d", i, w.Code)
		}
	}
	if len(m.rows["events"]) != 2 || m.opened != 3 || m.closed != 1 {
		t.Errorf("sink is %+v", m)
	}
	if n := strings.Count(log.String(), "no disk"); n != 1 || !strings.Contains(log.String(), "filing events again") {
		t.Errorf("log:\n%s", log)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Run(ctx); err != nil || m.closed != 2 {
		t.Errorf("the sink is closed %d times, error %v", m.closed, err)
	}
}

// start runs a receiver in a synctest bubble until the end of the test.
func start(t *testing.T, r *events.Receiver) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// A failing sink must not delay another sink. Soon after the sink works again, it must contain all events in order. For
// each sink, the metric must show the age of the first waiting event.
func TestSinkRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, log := &memory{}, &memory{}, new(bytes.Buffer)
		r := events.New(events.Config{}, []events.Destination{a.destination("a"), b.destination("b")}, slog.New(slog.NewTextHandler(log, nil)))
		start(t, r)
		a.fail(errors.New("no disk"))
		for i := range 100 {
			if w := post(r, target, strings.ReplaceAll(phase, "Running", fmt.Sprint(i))); w.Code != http.StatusOK {
				t.Errorf("request %d: status %d", i, w.Code)
			}
			time.Sleep(time.Minute)
		}
		if n := len(b.filed()["events"]); n != 100 || len(a.filed()["events"]) != 0 {
			t.Errorf("%d events in the sink that works, want 100", n)
		}
		ages := func(want map[string]float64) {
			t.Helper()
			if diff := cmp.Diff(want, metrics(t, r, "gpuledger_archive_event_queue_age_seconds", "sink")); diff != "" {
				t.Errorf("ages (-want +got):\n%s", diff)
			}
		}
		ages(map[string]float64{"a": 6000, "b": 0})
		a.fail(nil)
		time.Sleep(2 * time.Minute)
		if diff := cmp.Diff(b.filed(), a.filed()); diff != "" {
			t.Errorf("rows (-sink that worked +sink that failed):\n%s", diff)
		}
		ages(map[string]float64{"a": 0, "b": 0})
		if n := strings.Count(log.String(), "no disk"); n != 1 || !strings.Contains(log.String(), "filing events again") {
			t.Errorf("log:\n%s", log)
		}
		post(r, target, phase)
		if n := len(a.filed()["events"]); n != 101 {
			t.Errorf("after another request, the sink contains %d events", n)
		}
	})
}

// If a sink does not respond, it must delay only one request and no other sink.
func TestSlowSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		r := events.New(events.Config{}, []events.Destination{
			{Name: "slow", Open: func(ctx context.Context) (events.Sink, error) { <-ctx.Done(); return nil, ctx.Err() }},
			m.destination("m"),
		}, slog.New(slog.DiscardHandler))
		start(t, r)
		go func() {
			time.Sleep(time.Second)
			if len(m.filed()["events"]) != 1 || len(m.filed()["snapshots"]) != 1 {
				t.Errorf("after a second, the other sink contains %v", m.filed())
			}
		}()
		for i, limit := range []time.Duration{20 * time.Second, 0, 0} {
			began := time.Now()
			if w := post(r, target, phase+snapshot); w.Code != http.StatusOK {
				t.Errorf("request %d: status %d", i, w.Code)
			}
			if took := time.Since(began); took > limit {
				t.Errorf("request %d took %v, want at most %v", i, took, limit)
			}
		}
	})
}

// If a queue is full, events must be dropped and counted. The receiver must request each cluster's state once at the
// start, and again after the sink has stored the waiting events.
func TestDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &memory{}, &memory{}
		r := events.New(events.Config{}, []events.Destination{a.destination("a"), b.destination("b")}, slog.New(slog.DiscardHandler))
		start(t, r)
		large := strings.Replace(snapshot, `"Pod"`, `"`+strings.Repeat("p", 3<<20)+`"`, 1)
		repeats := func(cluster, body string) bool {
			t.Helper()
			w := post(r, event.Path+"?cluster="+cluster, body)
			if w.Code != http.StatusOK {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
			return w.Header().Get(event.RepeatHeader) == "true"
		}
		next := strings.ReplaceAll(phase, "Running", "Failed")
		if !repeats("east", phase) || repeats("east", next) || !repeats("west", phase) {
			t.Error("at the start, the state of each cluster must be requested once")
		}
		a.fail(errors.New("no disk"))
		for range 7 {
			if repeats("east", large) {
				t.Error("the state of a cluster is requested while the sink fails")
			}
		}
		if diff := cmp.Diff(map[string]float64{"a/filed": 3, "a/rejected": 0, "a/dropped": 2, "a": 5 * float64(len(large)), "b/filed": 10, "b/rejected": 0, "b/dropped": 0, "b": 0}, counted(t, r)); diff != "" {
			t.Errorf("metrics (-want +got):\n%s", diff)
		}
		a.fail(nil)
		time.Sleep(time.Minute)
		if !repeats("east", phase) || repeats("east", next) || !repeats("west", phase) {
			t.Error("after events were dropped, the state of each cluster must be requested once")
		}
		if n := len(a.filed()["snapshots"]); n != 5 {
			t.Errorf("%d snapshots waited, want 5", n)
		}
	})
}

// counted returns the number of events by sink and outcome. It also returns the size of the queue by sink.
func counted(t *testing.T, r *events.Receiver) map[string]float64 {
	t.Helper()
	all := metrics(t, r, "gpuledger_archive_events_total", "sink", "outcome")
	maps.Copy(all, metrics(t, r, "gpuledger_archive_event_queue_bytes", "sink"))
	return all
}

// metrics returns the values of a metric. The key of a value contains the values of the labels in by, separated by
// slashes.
func metrics(t *testing.T, r *events.Receiver, name string, by ...string) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(r)
	families, err := registry.Gather()
	check(t, err)
	values := make(map[string]float64)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.Metric {
			key := make([]string, len(by))
			for _, l := range m.Label {
				key[slices.Index(by, l.GetName())] = l.GetValue()
			}
			values[strings.Join(key, "/")] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return values
}
