package events_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/events"
	"github.com/gpuledger/gpuledger/internal/archive/permanent"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/event"
)

// picky is a sink that returns a permanent error for some ids.
type picky struct {
	memory
	rejects func(id string) bool
}

func (p *picky) Append(ctx context.Context, t table.Table, rows [][]any) error {
	for _, row := range rows {
		if p.rejects(row[3].(string)) {
			return permanent.Error(errors.New("value too long"))
		}
	}
	return p.memory.Append(ctx, t, rows)
}

func (p *picky) destination(name string) events.Destination {
	d := p.memory.destination(name)
	d.Open = func(context.Context) (events.Sink, error) { return p, nil }
	return d
}

func phases(from, until int) string {
	var text strings.Builder
	for i := from; i < until; i++ {
		text.WriteString(strings.ReplaceAll(phase, "u/phase/Running", fmt.Sprint("id-", i)))
	}
	return text.String()
}

// The elements have the form "sink cluster id reason".
func deadLetters(t *testing.T, path string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	check(t, err)
	for line := range strings.Lines(string(text)) {
		var l struct {
			Time                  time.Time
			Sink, Cluster, Reason string
			Event                 json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Time.IsZero() {
			t.Fatalf("%v in %q", err, line)
		}
		for e, err := range event.Decode(bytes.NewReader(l.Event)) { // the line must contain an event that can be sent again
			if err != nil {
				t.Fatalf("%v in %q", err, line)
			}
			all = append(all, strings.Join([]string{l.Sink, l.Cluster, e.ID, l.Reason}, " "))
		}
	}
	return all
}

// If a sink rejects an event, the dead-letter file must contain the event and the reason. A rejected event must not
// delay other events of its request or later requests, even if earlier events wait.
func TestRejected(t *testing.T) {
	for _, waits := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "folder", "dead.jsonl")
			sink, other, log := &picky{rejects: func(id string) bool { return id == "id-7" || id == "id-8" || id == "id-99" }}, &memory{}, new(bytes.Buffer)
			r := events.New(events.Config{DeadLetter: path}, []events.Destination{sink.destination("picky"), other.destination("other")}, slog.New(slog.NewTextHandler(log, nil)))
			start(t, r)
			if waits {
				sink.fail(errors.New("no disk"))
				post(r, target, phases(200, 201))
				sink.fail(nil)
			}
			for _, request := range []string{phases(0, 100), phases(100, 103)} {
				if w := post(r, target, request); w.Code != http.StatusOK {
					t.Fatalf("status %d", w.Code)
				}
			}
			time.Sleep(time.Minute)
			want := []string{"picky east id-7 value too long", "picky east id-8 value too long", "picky east id-99 value too long"}
			if diff := cmp.Diff(want, deadLetters(t, path)); diff != "" {
				t.Errorf("dead letters (-want +got):\n%s", diff)
			}
			got, all := sink.filed()["events"], other.filed()["events"]
			filed := len(all) - len(want)
			all = slices.DeleteFunc(slices.Clone(all), func(row string) bool { return sink.rejects(strings.TrimPrefix(row, "east ")) })
			if diff := cmp.Diff(all, got); diff != "" || filed < 100 {
				t.Errorf("events (-other sink +picky):\n%s", diff)
			}
			counts := counted(t, r)
			if counts["picky/rejected"] != 3 || counts["picky/dropped"] != 0 || counts["picky/filed"] != float64(filed) || counts["picky"] != 0 {
				t.Errorf("metrics are %v", counts)
			}
			if n := strings.Count(log.String(), "value too long"); n == 0 || n > 3 {
				t.Errorf("the reason is logged %d times:\n%s", n, log)
			}
		})
	}
}

// If rejected events cannot be written to a file, they must be logged and counted as dropped.
func TestNoDeadLetters(t *testing.T) {
	full := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(full, nil, 0o600))
	for _, path := range []string{"", filepath.Join(full, "dead.jsonl"), "/dev/full"} {
		sink, log := &picky{rejects: func(id string) bool { return id == "id-1" }}, new(bytes.Buffer)
		r := events.New(events.Config{DeadLetter: path}, []events.Destination{sink.destination("picky")}, slog.New(slog.NewTextHandler(log, nil)))
		if w := post(r, target, phases(0, 3)); w.Code != http.StatusOK {
			t.Errorf("%q: status %d", path, w.Code)
		}
		if counts := counted(t, r); counts["picky/dropped"] != 1 || counts["picky/filed"] != 2 {
			t.Errorf("%q: metrics are %v", path, counts)
		}
		if !strings.Contains(log.String(), "events are lost") {
			t.Errorf("%q: log:\n%s", path, log)
		}
	}
}

// The program ends while events wait for a sink. If the sink works again, it must get them. Otherwise the dead-letter
// file must contain them, and they must be counted and logged.
func TestStopped(t *testing.T) {
	for _, repaired := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "dead.jsonl")
			a, b, log := &memory{}, &memory{}, new(bytes.Buffer)
			r := events.New(events.Config{DeadLetter: path}, []events.Destination{a.destination("a"), b.destination("b")}, slog.New(slog.NewTextHandler(log, nil)))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- r.Run(ctx) }()
			a.fail(errors.New("no disk"))
			for i := range 7 {
				if w := post(r, target, phases(3*i, 3*i+3)); w.Code != http.StatusOK {
					t.Errorf("status %d", w.Code)
				}
			}
			time.Sleep(time.Second)
			if repaired {
				a.fail(nil)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			filed, letters := len(a.filed()["events"]), len(deadLetters(t, path))
			want := map[string]float64{"a/filed": 0, "a/rejected": 21, "a/dropped": 0, "a": 0, "b/filed": 21, "b/rejected": 0, "b/dropped": 0, "b": 0}
			if repaired {
				want["a/filed"], want["a/rejected"] = 21, 0
			}
			if diff := cmp.Diff(want, counted(t, r)); diff != "" || float64(filed) != want["a/filed"] || float64(letters) != want["a/rejected"] {
				t.Errorf("%d events in the sink, %d dead letters; metrics (-want +got):\n%s", filed, letters, diff)
			}
			if logged := strings.Contains(log.String(), "events=21"); logged == repaired {
				t.Errorf("log:\n%s", log)
			}
			if w := post(r, target, phase); w.Code == http.StatusOK {
				t.Error("an event is accepted after the end")
			}
		})
	}
}

// TestLargeBody uses a real connection. If a request is too large, its sender must receive the status, and must be able
// to reuse the connection.
func TestLargeBody(t *testing.T) {
	m := &memory{}
	server := httptest.NewServer(events.New(events.Config{}, []events.Destination{m.destination("m")}, slog.New(slog.DiscardHandler)))
	defer server.Close()
	for _, size := range []int{9 << 20, 40 << 20} {
		for range 3 {
			response, err := server.Client().Post(server.URL+target, "application/x-ndjson", io.LimitReader(zeros{}, int64(size)))
			if err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			text, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if err != nil || response.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(text), "more than 8388608 bytes") {
				t.Errorf("%d bytes: status %s: %s, %v", size, response.Status, text, err)
			}
		}
	}
}

// TestMemory checks the memory for two requests: a small request with 250,000 events, and the largest accepted request.
func TestMemory(t *testing.T) {
	for _, tt := range []struct{ events, status, limit int }{{250_000, 413, 160 << 20}, {20_000, 200, 256 << 20}} {
		m := &memory{}
		r := events.New(events.Config{}, []events.Destination{m.destination("m")}, slog.New(slog.DiscardHandler))
		body := compress(t, strings.NewReader(phases(0, tt.events)))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if w := post(r, target, body, "Content-Encoding", "gzip"); w.Code != tt.status {
			t.Errorf("%d events: status %d", tt.events, w.Code)
		}
		runtime.ReadMemStats(&after)
		used := after.TotalAlloc - before.TotalAlloc
		t.Logf("%d events in %d bytes: %d MiB allocated in all", tt.events, len(body), used>>20)
		if used > uint64(tt.limit) {
			t.Errorf("%d events: %d bytes are allocated, want at most %d", tt.events, used, tt.limit)
		}
	}
}

// For any body, the response must have a status that senders can handle. Times and lengths in stored rows must be
// within the limits.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(phase+snapshot), false)
	f.Add([]byte(phase), true)
	f.Add([]byte(`{"event":"phase","id":"u","at":"2015-01-01T00:00:00Z","n":1e999999}`), false)
	f.Add([]byte(`{"event":"phase","id":"u","at":"9999-01-01T00:00:00Z","x":[[[[]]]]}`+"\n"), false)
	f.Fuzz(func(t *testing.T, body []byte, zipped bool) {
		var header []string
		if zipped {
			header = []string{"Content-Encoding", "gzip"}
		}
		limits := &bounds{t: t, now: time.Now()}
		r := events.New(events.Config{}, []events.Destination{{Name: "bounds", Open: func(context.Context) (events.Sink, error) { return limits, nil }}}, slog.New(slog.DiscardHandler))
		if w := post(r, target, string(body), header...); !slices.Contains([]int{200, 400, 413}, w.Code) {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
	})
}

type bounds struct {
	t    *testing.T
	now  time.Time
	rows int
}

func (b *bounds) Append(_ context.Context, _ table.Table, rows [][]any) error {
	b.rows += len(rows)
	for _, row := range rows {
		if hour := row[1].(time.Time); hour.Before(b.now.AddDate(-1, -2, 0)) || hour.After(b.now.AddDate(0, 0, 2)) || !hour.Equal(hour.Truncate(time.Hour)) {
			b.t.Errorf("hour %v at %v", hour, b.now)
		}
		for _, value := range row {
			if text, ok := value.(string); ok && (len(text) > event.MaxLine || strings.ContainsRune(text, 0)) {
				b.t.Errorf("a text of %d bytes, or with a zero byte", len(text))
			}
		}
	}
	if b.rows > 20_000 {
		b.t.Errorf("%d rows", b.rows)
	}
	return nil
}

func (b *bounds) Close() error { return nil }
