package app

import (
	"bytes"
	"encoding/json"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/status"
)

// chargedNode returns a snapshot with charges. The function read is called before the intervals in the snapshot are
// read.
func chargedNode(read func()) *gpu.Snapshot {
	owner := gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml", Name: "train-0", UID: "uid", Part: "main"}
	end := gpu.Instant{Wall: time.Unix(1_800_000_000, 0), Boot: time.Hour}
	start := gpu.Instant{Wall: end.Wall.Add(-time.Second), Boot: end.Boot - time.Second}
	iv := gpu.Interval{
		From: start, To: end, Energy: 300_000, Parts: []gpu.IntervalPart{{Slices: 1, Busy: 300_000, Held: true}},
		Charges: []gpu.Charge{{AccountKey: gpu.AccountKey{Owner: owner}, Holding: 1, Energy: gpu.ByMethod{gpu.Exclusive: 300_000}}},
	}
	var intervals iter.Seq[gpu.Interval] = func(yield func(gpu.Interval) bool) {
		read()
		yield(iv)
	}
	return &gpu.Snapshot{At: end, GPUs: []gpu.GPU{{
		Device: gpu.Device{UUID: "GPU-1"}, Present: true, Intervals: intervals,
		Book: &gpu.Book{Settled: end, Energy: 300_000, Accounts: []gpu.Account{{AccountKey: gpu.AccountKey{Owner: owner}, Energy: gpu.ByMethod{gpu.Exclusive: 300_000}}}},
	}}}
}

func TestExplainPaths(t *testing.T) {
	handler := explanationJSON(func() *gpu.Snapshot { return chargedNode(func() {}) }, slog.New(slog.DiscardHandler))
	tests := []struct {
		query  string
		status int
		want   string
	}{
		{"gpu=0&owner=ml/train-0&since=1m", http.StatusOK, `"exclusive_millijoules": 300000`},
		{"owner=train-0", http.StatusOK, `"owner": "ml/train-0"`},
		{"owner=eval-0", http.StatusBadRequest, "--owner=eval-0: no such owner on this GPU; the owners are ml/train-0/main"},
		{"owner=train-0&since=-1m", http.StatusBadRequest, "since=-1m: must be a positive time"},
		{"owner=train-0&since=soon", http.StatusBadRequest, "since=soon: must be a positive time"},
	}
	for _, tt := range tests {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/explain?"+tt.query, http.NoBody))
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s: status %d, body %s; want %d, %s", tt.query, w.Code, w.Body, tt.status, tt.want)
		}
	}
	w := httptest.NewRecorder()
	page := explanationPage(func() *gpu.Snapshot { return chargedNode(func() {}) }, slog.New(slog.DiscardHandler))
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/explain.html?owner=train-0", http.NoBody))
	if w.Header().Get("Content-Security-Policy") != status.SecurityPolicy || !strings.Contains(w.Body.String(), "<td class=\"exact\">300.000</td>") {
		t.Errorf("page: header %v, body %s", w.Header(), w.Body)
	}
	w = httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/explain.html?owner=%3Cb%3E", http.NoBody))
	if w.Code != http.StatusBadRequest || w.Header().Get("Content-Type") != htmlType || w.Header().Get("Content-Security-Policy") != status.SecurityPolicy ||
		!strings.Contains(w.Body.String(), "--owner=&lt;b&gt;: no such owner") || !strings.Contains(w.Body.String(), `<a href="./">`) {
		t.Errorf("page of an error: status %d, header %v, body %s", w.Code, w.Header(), w.Body)
	}
}

// TestExplainOneAtATime checks that many concurrent requests do not decode intervals at the same time. Only one request
// at a time may do so.
func TestExplainOneAtATime(t *testing.T) {
	var running, most atomic.Int32
	s := chargedNode(func() {
		n := running.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		for range 1000 { // lets other goroutines run
			_ = json.Valid(bytes.Repeat([]byte("1"), 100))
		}
		running.Add(-1)
	})
	handler := explanationJSON(func() *gpu.Snapshot { return s }, slog.New(slog.DiscardHandler))
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			r := httptest.NewRequest(http.MethodGet, "/explain?owner=train-0&since="+time.Duration(i+1).String(), http.NoBody)
			handler.ServeHTTP(httptest.NewRecorder(), r)
		})
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d requests decode intervals at the same time, want 1", most.Load())
	}
}
