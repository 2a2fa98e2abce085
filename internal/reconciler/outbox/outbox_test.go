package outbox_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/event"
	"github.com/gpuledger/gpuledger/internal/reconciler/outbox"
)

// archive receives events without a network, in a synctest bubble.
type archive struct {
	t     *testing.T
	conns chan net.Conn

	mu       sync.Mutex
	respond  http.HandlerFunc // handler for requests; nil for a response with status 200
	down     bool             // whether connections are refused
	ask      bool             // whether the next response requests the current state
	requests int
	lines    []string
}

func (a *archive) Accept() (net.Conn, error) {
	conn, ok := <-a.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (a *archive) Close() error   { close(a.conns); return nil }
func (a *archive) Addr() net.Addr { return &net.TCPAddr{} }

func (a *archive) dial(context.Context, string, string) (net.Conn, error) {
	if a.isDown() {
		return nil, fmt.Errorf("connection refused")
	}
	client, server := net.Pipe()
	a.conns <- server
	return client, nil
}

func (a *archive) isDown() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.down
}

func (a *archive) set(down bool, respond http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down, a.respond = down, respond
}

func (a *archive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.isDown() {
		panic(http.ErrAbortHandler) // this closes the connection
	}
	a.mu.Lock()
	respond := a.respond
	a.requests++
	a.mu.Unlock()
	body, err := gzip.NewReader(r.Body)
	if err != nil {
		a.t.Errorf("body: %v", err)
		return
	}
	text, err := io.ReadAll(body)
	if err != nil || r.Method != http.MethodPost || r.URL.String() != "/base/api/v1/events?cluster=a%2Fb" {
		a.t.Errorf("%s %s, error %v", r.Method, r.URL, err)
	}
	if respond != nil {
		respond(w, r)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines = append(a.lines, strings.Fields(string(text))...)
	if a.ask {
		w.Header().Set(event.RepeatHeader, "true")
		a.ask = false
	}
}

func (a *archive) posts() int {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests
}

func (a *archive) received() []string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	lines := a.lines
	a.lines = nil
	return lines
}

func (a *archive) expect(step string, want ...string) {
	a.t.Helper()
	if diff := cmp.Diff(want, a.received()); diff != "" {
		a.t.Errorf("%s: lines (-want +received):\n%s", step, diff)
	}
}

// run starts an outbox and an archive, and calls test. The function stop ends the outbox and returns the time until the
// outbox has ended.
func run(t *testing.T, test func(t *testing.T, a *archive, o *outbox.Outbox, stop func() time.Duration)) *bytes.Buffer {
	log := new(bytes.Buffer)
	synctest.Test(t, func(t *testing.T) {
		a := &archive{t: t, conns: make(chan net.Conn)}
		server := &http.Server{Handler: a, ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(a) }() // Serve returns when the test closes the server
		o := outbox.New(outbox.Options{URL: "http://archive/base", Cluster: "a/b", Dial: a.dial}, slog.New(slog.NewTextHandler(log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- o.Run(ctx) }()
		stop := func() time.Duration {
			began := time.Now()
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			ended <- nil
			return time.Since(began)
		}
		test(t, a, o, stop)
		stop()
		_ = server.Close()
	})
	return log
}

func send(o *outbox.Outbox, lines ...string) {
	for _, line := range lines {
		o.Send([]byte(line + "\n"))
	}
}

// count checks the metrics except the number of failures, which depends on the random intervals between retries.
func count(t *testing.T, o *outbox.Outbox, want string) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(o)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, family := range families {
		if strings.HasSuffix(family.GetName(), "_failures_total") {
			continue
		}
		for _, m := range family.GetMetric() {
			values = append(values, fmt.Sprint(m.GetCounter().GetValue()+m.GetGauge().GetValue()))
		}
	}
	if got := strings.Join(values, " "); got != want {
		t.Errorf("delivered, dropped, rejected and queue are %s, want %s", got, want)
	}
}

// TestOrder checks that each event is sent exactly once, in order, and in only a few requests.
func TestOrder(t *testing.T) {
	run(t, func(t *testing.T, a *archive, o *outbox.Outbox, _ func() time.Duration) {
		send(o, "1", "2")
		time.Sleep(time.Second)
		send(o, "3")
		a.expect("before the batch is collected")
		time.Sleep(2 * time.Second)
		send(o, "4")
		time.Sleep(time.Hour)
		a.expect("all", "1", "2", "3", "4")
		if n := a.posts(); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		count(t, o, "4 0 0 0")

		var want []string
		for i := range 3 {
			want = append(want, strings.Repeat(fmt.Sprint(i), 600<<10))
		}
		send(o, want...)
		a.expect("a full batch is sent at once", want...)
		if n := a.posts(); n != 4 {
			t.Errorf("%d requests, want 4", n)
		}
	})
}

// TestRetry checks that the outbox sends events again until the archive has stored them. The intervals between the
// requests must be long enough.
func TestRetry(t *testing.T) {
	log := run(t, func(t *testing.T, a *archive, o *outbox.Outbox, _ func() time.Duration) {
		a.set(true, nil)
		send(o, "1")
		time.Sleep(time.Minute)
		send(o, "2")
		count(t, o, "0 0 0 4")
		a.set(false, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "50")
			http.Error(w, "no database", http.StatusServiceUnavailable)
		})
		time.Sleep(2 * time.Minute)
		if n := a.posts(); n < 1 || n > 3 {
			t.Errorf("%d requests in two minutes, want 1 to 3", n)
		}
		a.set(false, nil)
		time.Sleep(time.Minute)
		a.expect("after the failures", "1", "2")
	})
	for _, message := range []string{"cannot send events", "sending events to the archive again"} {
		if n := strings.Count(log.String(), message); n != 1 {
			t.Errorf("%q is logged %d times, want once:\n%s", message, n, log)
		}
	}
}

func TestRejected(t *testing.T) {
	log := run(t, func(t *testing.T, a *archive, o *outbox.Outbox, _ func() time.Duration) {
		a.set(false, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "line 1: invalid", http.StatusBadRequest) })
		send(o, "1", "2")
		time.Sleep(time.Minute)
		a.set(false, nil)
		send(o, "3")
		time.Sleep(time.Minute)
		a.expect("after an invalid batch", "3")
		count(t, o, "1 0 2 0")
	})
	if !strings.Contains(log.String(), "line 1: invalid") {
		t.Errorf("the log does not contain the reason:\n%s", log)
	}
}

// TestDrop checks that a full queue drops events without blocking. The outbox must send the current state later.
func TestDrop(t *testing.T) {
	run(t, func(t *testing.T, a *archive, o *outbox.Outbox, _ func() time.Duration) {
		o.Repeat(slices.Values([][]byte{[]byte("state\n")}))
		time.Sleep(time.Minute)
		a.expect("at the start of a term", "state")

		a.set(true, nil)
		var want []string
		for i := range 20 {
			want = append(want, strings.Repeat(string(rune('a'+i)), 1<<20-1))
		}
		began := time.Now()
		send(o, want...)
		if took := time.Since(began); took > 0 {
			t.Errorf("sending took %v", took)
		}
		count(t, o, "1 4 0 1.6777216e+07")
		a.set(false, nil)
		time.Sleep(6 * time.Minute)
		a.expect("after drops", append(want[:16:16], "state")...)
		count(t, o, "18 4 0 0")
		time.Sleep(time.Hour)
		a.expect("much later")

		o.Repeat(nil)
		a.set(true, nil)
		send(o, want...)
		a.set(false, nil)
		time.Sleep(time.Hour)
		a.expect("after drops without a state", want[:16]...)
	})
}

func TestRepeat(t *testing.T) {
	run(t, func(t *testing.T, a *archive, o *outbox.Outbox, _ func() time.Duration) {
		var states [][]byte
		for i := range 3 {
			states = append(states, []byte(strings.Repeat(fmt.Sprint(i), 1<<20)+"\n"))
		}
		o.Repeat(func(yield func([]byte) bool) {
			for i, line := range states {
				send(o, fmt.Sprint("new", i))
				if !yield(line) {
					return
				}
			}
		})
		time.Sleep(time.Minute)
		var order []string
		for _, line := range a.received() {
			order = append(order, line[:min(4, len(line))])
		}
		if diff := cmp.Diff([]string{"0000", "new0", "1111", "new1", "2222", "new2"}, order); diff != "" {
			t.Errorf("order (-want +received):\n%s", diff)
		}
	})
}

// TestAsked checks that the outbox sends the current state when the archive requests it. If the outbox sent the state
// within the last minutes, it must wait.
func TestAsked(t *testing.T) {
	run(t, func(t *testing.T, a *archive, o *outbox.Outbox, _ func() time.Duration) {
		a.ask = true
		o.Repeat(slices.Values([][]byte{[]byte("state\n")}))
		time.Sleep(4 * time.Minute)
		a.expect("at the start of a term", "state")
		time.Sleep(2 * time.Minute)
		a.expect("after the archive requested the state", "state")
		time.Sleep(time.Hour)
		a.expect("much later")
		a.ask = true
		send(o, "new")
		time.Sleep(time.Minute)
		a.expect("after the archive requested the state again", "new", "state")
	})
}

// TestShutdown checks that an outbox ends within a second. If the archive responds, the outbox must first send its
// queue.
func TestShutdown(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	tests := []struct {
		name    string
		down    bool
		respond http.HandlerFunc
		wait    time.Duration
		want    []string
	}{
		{"responding", false, nil, 0, []string{"1", "2"}},
		{"hanging", false, hang, 0, nil},
		{"hanging in a request", false, hang, time.Minute, nil},
		{"down", true, nil, time.Minute, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run(t, func(t *testing.T, a *archive, o *outbox.Outbox, stop func() time.Duration) {
				a.set(tt.down, tt.respond)
				send(o, "1", "2")
				time.Sleep(tt.wait)
				if took := stop(); took >= time.Second {
					t.Errorf("the shutdown took %v", took)
				}
				a.expect("at shutdown", tt.want...)
			})
		})
	}
}
