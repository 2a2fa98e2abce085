package serve_test

import (
	"compress/gzip"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/serve"
)

// TestMainAfter checks that a page contains the written part once, and after it the gathered part once. It checks all
// formats and encodings that Prometheus requests.
func TestMainAfter(t *testing.T) {
	const written = "# HELP pods Pods.\n# TYPE pods gauge\npods{pod=\"a\"} 1\n"
	write := func(w io.Writer) error { _, err := io.WriteString(w, written); return err }
	const openMetrics = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.4"
	const protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,"
	for _, tt := range []struct{ name, accept, encoding, wantType, want string }{
		{"no header", "", "", "text/plain", "\ncalls{i=\"0\"} 1\n"},
		{"OpenMetrics", openMetrics, "gzip", "application/openmetrics-text", "\ncalls{i=\"0\"} 1.0\n"},
		{"text and zstd", "text/plain", "zstd, gzip", "text/plain", "\ncalls{i=\"0\"} 1\n"},
		{"zstd only", "text/plain", "zstd", "text/plain", "\ncalls{i=\"0\"} 1\n"},
		{"protobuf", protobuf + openMetrics, "gzip", "text/plain", "\ncalls{i=\"0\"} 1\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			handler := serve.NewMetrics(prometheus.NewRegistry(), slog.New(slog.DiscardHandler)).MainAfter(write, &gatherer{series: 1, label: 1})
			r := httptest.NewRequest("GET", "/metrics", nil)
			r.Header.Set("Accept", tt.accept)
			r.Header.Set("Accept-Encoding", tt.encoding)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			var body io.Reader = w.Body
			if strings.Contains(tt.encoding, "gzip") {
				if got := w.Header().Get("Content-Encoding"); got != "gzip" {
					t.Fatalf("the encoding is %q", got)
				}
				z, err := gzip.NewReader(w.Body)
				if err != nil {
					t.Fatal(err)
				}
				body = z
			}
			text, err := io.ReadAll(body)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, tt.wantType) {
				t.Errorf("the content type is %q, want %s", got, tt.wantType)
			}
			end := strings.HasSuffix(string(text), "\n# EOF\n")
			if !strings.HasPrefix(string(text), written) || strings.Count(string(text), tt.want) != 1 || end != (tt.name == "OpenMetrics") {
				t.Errorf("the page is\n%s", text)
			}
		})
	}
}
