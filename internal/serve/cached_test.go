package serve_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/internal/serve"
)

type gathered struct {
	n   int
	err error
}

func (g *gathered) Gather() ([]*dto.MetricFamily, func(), error) {
	if g.n++; g.err != nil {
		return nil, func() {}, g.err
	}
	return []*dto.MetricFamily{{
		Name: new("times"), Type: dto.MetricType_GAUGE.Enum(), Metric: []*dto.Metric{{Gauge: &dto.Gauge{Value: new(float64(g.n))}}},
	}}, func() {}, nil
}

// TestCached checks that a page is rendered once for each revision and encoding, and again when an earlier revision
// returns.
func TestCached(t *testing.T) {
	page, revision := new(gathered), uint64(0)
	h := serve.NewMetrics(prometheus.NewRegistry(), slog.New(slog.DiscardHandler)).Cached(page, func() uint64 { return revision })
	for i, tt := range []struct {
		revision uint64
		encoding string
		want     int // number of the served rendering, counted from 1
	}{
		{0, "", 1},
		{0, "", 1},
		{0, "gzip", 2},
		{0, "", 1},
		{0, "gzip", 2},
		{1, "", 3},
		{1, "gzip", 4},
		{1, "", 3},
		{0, "", 5},
	} {
		revision = tt.revision
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header.Set("Accept-Encoding", tt.encoding)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if tt.encoding == "" && !strings.Contains(w.Body.String(), fmt.Sprintf("\ntimes %d\n", tt.want)) {
			t.Errorf("request %d: want rendering %d of the page, got %s", i, tt.want, w.Body)
		}
		if got := w.Header().Get("Content-Encoding"); got != tt.encoding {
			t.Errorf("request %d: encoding %q, want %q", i, got, tt.encoding)
		}
		if page.n > 5 {
			t.Errorf("request %d: page rendered %d times, want 5 at most", i, page.n)
		}
	}
}

// TestCachedMany checks that the number of cached responses is limited. After 100 different requests, the response to
// the first request must be rendered again.
func TestCachedMany(t *testing.T) {
	page := new(gathered)
	h := serve.NewMetrics(prometheus.NewRegistry(), slog.New(slog.DiscardHandler)).Cached(page, func() uint64 { return 1 })
	get := func(query int) {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, fmt.Sprint("/?", query), http.NoBody))
	}
	for i := range 100 {
		get(i)
	}
	if get(0); page.n != 101 {
		t.Errorf("page rendered %d times for 101 requests, want 101", page.n)
	}
}

func TestCachedFailure(t *testing.T) {
	page := &gathered{err: errors.New("no page")}
	h := serve.NewMetrics(prometheus.NewRegistry(), slog.New(slog.DiscardHandler)).Cached(page, func() uint64 { return 1 })
	for _, want := range []int{http.StatusInternalServerError, http.StatusOK} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		if page.err = nil; w.Code != want {
			t.Errorf("status %d, want %d", w.Code, want)
		}
	}
}
