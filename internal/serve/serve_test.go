package serve_test

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/serve"
)

func TestProbes(t *testing.T) {
	missing := "no reading yet"
	ready := serve.Ready(func() string { return missing })
	ask := func(h http.HandlerFunc) (int, string) {
		w := httptest.NewRecorder()
		h(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		return w.Code, w.Body.String()
	}
	if code, text := ask(ready); code != http.StatusServiceUnavailable || text != "not ready: no reading yet\n" {
		t.Errorf("readiness before the first reading: %d %q", code, text)
	}
	missing = ""
	if code, text := ask(ready); code != http.StatusOK || text != "ready\n" {
		t.Errorf("readiness: %d %q", code, text)
	}
	if code, text := ask(serve.Healthy); code != http.StatusOK || text != "healthy\n" {
		t.Errorf("health: %d %q", code, text)
	}
}

// TestPage checks that a separate page contains only the metrics of its gatherer, and that its failures are counted on
// the main page.
func TestPage(t *testing.T) {
	main, own := prometheus.NewRegistry(), prometheus.NewRegistry()
	own.MustRegister(prometheus.CollectorFunc(func(ch chan<- prometheus.Metric) {
		for range 2 { // a page with two equal metrics fails
			ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("twice", "", nil, nil), prometheus.GaugeValue, 1)
		}
	}))
	log := slog.New(slog.DiscardHandler)
	get := func(h http.Handler) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		return w.Body.String()
	}
	metrics := serve.NewMetrics(main, log)
	onMain := metrics.Main()
	if got, want := get(metrics.Page(prometheus.ToTransactionalGatherer(own))), "# HELP twice \n# TYPE twice gauge\ntwice 1\n"; got != want {
		t.Errorf("page is\n%s\nwant\n%s", got, want)
	}
	if got, want := get(onMain), `promhttp_metric_handler_errors_total{cause="gathering"} 1`; !strings.Contains(got, want) {
		t.Errorf("main page does not contain %s:\n%s", want, got)
	}
}

func TestAddresses(t *testing.T) {
	tests := []struct {
		args []string
		want []string // nil if the flags are invalid
	}{
		{nil, []string{":9840"}},
		{[]string{"--web.listen-address=127.0.0.1:1"}, []string{"127.0.0.1:1"}},
		{[]string{"--web.listen-address=127.0.0.1:1", "--web.listen-address=[::1]:2"}, []string{"127.0.0.1:1", "[::1]:2"}},
		{[]string{"--web.listen-address=localhost"}, nil},
		{[]string{"--web.listen-address=:no-such-service"}, nil},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			var c serve.Config
			fs := flag.NewFlagSet("test", flag.ContinueOnError)
			fs.SetOutput(io.Discard)
			c.Register(fs, ":9840")
			err := fs.Parse(tt.args)
			if (err == nil) != (tt.want != nil) || err == nil && !slices.Equal(c.ListenAddresses, tt.want) {
				t.Errorf("addresses %q, error %v", c.ListenAddresses, err)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for _, arg := range []string{"--web.config.file=/nonexistent/web.yml", "--web.max-requests=0", "--web.max-connections=-1"} {
		var c serve.Config
		fs := flag.NewFlagSet("test", flag.ContinueOnError)
		c.Register(fs, ":9840")
		if err := fs.Parse([]string{arg}); err != nil {
			t.Fatal(err)
		}
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), arg+": ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error is %v, want one line that starts with the flag", arg, err)
		}
	}
}

// TestServing checks that the function passed to Serving is called once, when all addresses are served. It must not be
// called while the web configuration is invalid.
func TestServing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yml")
	for _, tt := range []struct {
		name, config string
		want         int32
	}{{"valid", "{}", 1}, {"invalid", "tls_server_config: {cert_file: missing, key_file: missing}", 0}} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(tt.config), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := serve.New(serve.Config{
				ListenAddresses: []string{"127.0.0.1:0", "127.0.0.1:0"}, WebConfigFile: file, MaxConnections: 1, MaxRequests: 1,
			}, slog.New(slog.NewTextHandler(failure(cancel), nil)))
			var calls atomic.Int32
			s.Serving(func() { calls.Add(1); cancel() })
			if err := s.Run(ctx, http.NotFoundHandler()); err != nil {
				t.Error(err)
			}
			if calls.Load() != tt.want {
				t.Errorf("the function was called %d times, want %d", calls.Load(), tt.want)
			}
		})
	}
}

type failure func()

func (f failure) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "cannot listen for HTTP requests") {
		f()
	}
	return len(line), nil
}
