package serve_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/internal/serve"
)

// gatherer gathers series. The value of each series is the number of calls of the gatherer.
type gatherer struct {
	calls         atomic.Int64
	series, label int
	takes         time.Duration
}

func (g *gatherer) Gather() ([]*dto.MetricFamily, func(), error) {
	n := float64(g.calls.Add(1))
	time.Sleep(g.takes)
	f := &dto.MetricFamily{Name: new("calls"), Type: dto.MetricType_GAUGE.Enum()}
	for i := range g.series {
		f.Metric = append(f.Metric, &dto.Metric{Label: []*dto.LabelPair{{Name: new("i"), Value: new(fmt.Sprintf("%0*d", g.label, i))}}, Gauge: &dto.Gauge{Value: &n}})
	}
	return []*dto.MetricFamily{f}, func() {}, nil
}

func pageOf(g prometheus.TransactionalGatherer) http.Handler {
	return serve.NewMetrics(prometheus.NewRegistry(), slog.New(slog.DiscardHandler)).Page(g)
}

// TestShared sends requests at about the same time. Requests that accept the same encoding must get the same response.
// Later requests must get a new response.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gatherer{series: 1, takes: time.Second}
		h := pageOf(g)
		var wg sync.WaitGroup
		answers := make(map[string]int)
		var mu sync.Mutex
		ask := func(after time.Duration, acceptEncoding string) {
			wg.Go(func() {
				time.Sleep(after)
				r, w := httptest.NewRequest(http.MethodGet, "/", http.NoBody), httptest.NewRecorder()
				r.Header.Set("Accept-Encoding", acceptEncoding)
				h.ServeHTTP(w, r)
				mu.Lock()
				defer mu.Unlock()
				if got := w.Header().Get("Content-Length"); got != fmt.Sprint(w.Body.Len()) {
					t.Errorf("Content-Length is %s, want %d", got, w.Body.Len())
				}
				answers[w.Header().Get("Content-Encoding")+" "+w.Body.String()]++
			})
		}
		for range 5 {
			ask(0, "identity")
			ask(500*time.Millisecond, "identity")
			ask(1500*time.Millisecond, "identity")
		}
		wg.Wait()
		if len(answers) != 2 || answers[" # TYPE calls gauge\ncalls{i=\"0\"} 1\n"] != 10 || answers[" # TYPE calls gauge\ncalls{i=\"0\"} 2\n"] != 5 {
			t.Errorf("responses are %v, want 10 of the first and 5 of the second rendering", answers)
		}
		clear(answers)
		ask(0, "identity")
		ask(0, "gzip")
		wg.Wait()
		if len(answers) != 2 || g.calls.Load() != 4 {
			t.Errorf("responses with and without gzip: %v, want one of each", answers)
		}
	})
}

// TestRoom checks that a response can reuse the buffer of an earlier response, even if the new response is slightly
// larger.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long, size := strings.Repeat("x", 2<<20), 1<<20
		h := pageOf(gathererFunc(func() []*dto.MetricFamily {
			time.Sleep(time.Second)
			l := &dto.LabelPair{Name: new("l"), Value: new(long[:size])}
			return []*dto.MetricFamily{{Name: new("m"), Type: dto.MetricType_GAUGE.Enum(), Metric: []*dto.Metric{{Label: []*dto.LabelPair{l}, Gauge: &dto.Gauge{Value: new(1.0)}}}}}
		}))
		ask := func() { h.ServeHTTP(discarder{}, httptest.NewRequest(http.MethodGet, "/", http.NoBody)) }
		var two sync.WaitGroup // two clients that get the same response, whose buffer is therefore not reused
		two.Go(ask)
		two.Go(ask)
		two.Wait()
		ask()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 5 {
			size += size / 200
			ask()
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > uint64(size)/2 {
			t.Errorf("5 responses of up to %d bytes allocated %d bytes, want half a response at most", size, n)
		}
	})
}

type gathererFunc func() []*dto.MetricFamily

func (f gathererFunc) Gather() ([]*dto.MetricFamily, func(), error) { return f(), func() {}, nil }

type discarder struct{}

func (discarder) Header() http.Header         { return make(http.Header) }
func (discarder) WriteHeader(int)             {}
func (discarder) Write(b []byte) (int, error) { return len(b), nil }

// TestSlowReader checks that a client that reads slowly does not affect other clients. For the other clients, the
// page must be rendered again at each scrape.
func TestSlowReader(t *testing.T) {
	g := &gatherer{series: 20_000, label: 1000} // the page is larger than the kernel's buffers for a connection
	server := httptest.NewServer(pageOf(g))
	defer server.Close()
	slow, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	if _, err := io.WriteString(slow, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(slow)
	if _, err := reader.ReadString('\n'); err != nil { // the response has started
		t.Fatal(err)
	}
	for i := range 3 {
		resp, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if want := fmt.Sprintf("0\"} %d\n", i+2); err != nil || !strings.Contains(string(page), want) {
			t.Errorf("scrape %d returns %q, error %v", i+2, page[:min(100, len(page))], err)
		}
	}
	resp, err := http.ReadResponse(bufio.NewReader(io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\n"), reader)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if page, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(page), "19999\"} 1\n") {
		t.Errorf("the slow client received %d bytes, error %v; want the complete first response", len(page), err)
	}
}
