package serve_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/gpuledger/gpuledger/internal/serve"
)

type changing struct {
	*rand.Rand
	families []*dto.MetricFamily
}

func (c *changing) Gather() ([]*dto.MetricFamily, func(), error) { return c.families, func() {}, nil }

func (c *changing) value() float64 {
	return []float64{0, math.Copysign(0, -1), 1, 1.5, math.NaN(), math.Inf(1), c.NormFloat64(), float64(c.IntN(1e9))}[c.IntN(8)]
}

func (c *changing) labels() []*dto.LabelPair {
	return []*dto.LabelPair{{Name: new("UUID"), Value: new(fmt.Sprint(c.IntN(3)))}, {Name: new("x"), Value: new(fmt.Sprint(c.IntN(1000)))}}
}

func (c *changing) metric(kind dto.MetricType) *dto.Metric {
	m := &dto.Metric{Label: c.labels()}
	switch kind {
	case dto.MetricType_COUNTER:
		m.Counter = &dto.Counter{Value: new(math.Abs(c.value())), CreatedTimestamp: timestamppb.Now()}
	case dto.MetricType_GAUGE:
		m.Gauge = &dto.Gauge{Value: new(c.value())}
	default:
		m.Histogram = &dto.Histogram{SampleCount: new(uint64(3)), SampleSum: new(c.value())}
	}
	return m
}

// family returns a random family. A few families are so large that their text is not kept.
func (c *changing) family(name string) *dto.MetricFamily {
	kind := []dto.MetricType{dto.MetricType_COUNTER, dto.MetricType_GAUGE, dto.MetricType_GAUGE, dto.MetricType_HISTOGRAM}[c.IntN(4)]
	f := &dto.MetricFamily{Name: &name, Help: new(fmt.Sprint("Help ", c.IntN(3))), Type: &kind}
	n := 1 + c.IntN(5)
	if c.IntN(50) == 0 {
		n = 8000
	}
	for range n {
		f.Metric = append(f.Metric, c.metric(kind))
	}
	return f
}

func (c *changing) change() {
	i := c.IntN(len(c.families))
	f := c.families[i]
	k := c.IntN(len(f.Metric))
	m := f.Metric[k]
	switch c.IntN(9) {
	case 0:
		c.families[i] = c.family(f.GetName())
	case 1:
		f.Help = new(f.GetHelp() + "x")
	case 2:
		if len(c.families) > 3 {
			c.families = slices.Delete(c.families, i, i+1)
		}
	case 3:
		if name := fmt.Sprintf("m%02d", c.IntN(40)); !slices.ContainsFunc(c.families, func(f *dto.MetricFamily) bool { return f.GetName() == name }) {
			c.families = append(c.families, c.family(name))
			slices.SortFunc(c.families, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
		}
	case 4:
		f.Metric[k] = c.metric(f.GetType())
	case 5:
		m.Label = c.labels()
	case 6:
		f.Metric = append(f.Metric, c.metric(f.GetType()))
	case 7:
		if m.Counter != nil {
			m.Counter.CreatedTimestamp = timestamppb.New(timestamppb.Now().AsTime().Add(1))
		}
	default:
		if m.Gauge != nil {
			*m.Gauge.Value = c.value()
		} else if m.Counter != nil {
			*m.Counter.Value += math.Abs(c.NormFloat64())
		}
	}
}

// TestTexts changes a page at random and compares each response with client_golang's response.
func TestTexts(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	c := &changing{Rand: rand.New(rand.NewPCG(seed, 1))}
	for i := range 10 {
		c.families = append(c.families, c.family(fmt.Sprintf("m%02d", 4*i)))
	}
	page := serve.NewMetrics(prometheus.NewRegistry(), slog.New(slog.DiscardHandler)).Page(c)
	want := promhttp.HandlerForTransactional(c, promhttp.HandlerOpts{EnableOpenMetrics: true})
	for step := range 500 {
		for range c.IntN(3) {
			c.change()
		}
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		if c.IntN(20) > 0 {
			r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
		}
		if c.IntN(4) == 0 {
			r.Header.Set("Accept-Encoding", "gzip")
		}
		if want, got := textOf(t, want, r), textOf(t, page, r); want != got {
			t.Fatalf("step %d (-want +got):\n%s", step, cmp.Diff(want, got))
		}
	}
}

func textOf(t *testing.T, h http.Handler, r *http.Request) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var body io.Reader = w.Body
	if w.Header().Get("Content-Encoding") == "gzip" {
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
	return fmt.Sprintln(w.Code, w.Header()["Content-Type"], w.Header()["Content-Encoding"], w.Header()["Vary"]) + string(text)
}

// TestTextsRequests compares responses to unusual requests with the responses of client_golang.
func TestTextsRequests(t *testing.T) {
	c := &changing{Rand: rand.New(rand.NewPCG(1, 1))}
	for i := range 5 {
		c.families = append(c.families, c.family(fmt.Sprint("m", i)))
	}
	page := serve.NewMetrics(prometheus.NewRegistry(), slog.New(slog.DiscardHandler)).Page(c)
	want := promhttp.HandlerForTransactional(c, promhttp.HandlerOpts{
		EnableOpenMetrics: true, OfferedCompressions: []promhttp.Compression{promhttp.Identity, promhttp.Gzip},
	})
	for _, accept := range []string{"", "text/plain", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"} {
		for _, encoding := range []string{"", "gzip", "GZIP", "gzip, zstd", "zstd", "identity", "identity, gzip", "gzip;q=0", "gzip;q=0.5, identity", "*", "*;q=0", "gzip ,deflate"} {
			for _, query := range []string{"", "?name[]=m1"} {
				r := httptest.NewRequest(http.MethodGet, "/"+query, http.NoBody)
				r.Header.Set("Accept", accept)
				r.Header.Set("Accept-Encoding", encoding)
				for range 2 {
					if diff := cmp.Diff(textOf(t, want, r), textOf(t, page, r)); diff != "" {
						t.Errorf("%q %q %q (-want +got):\n%s", accept, encoding, query, diff)
					}
				}
			}
		}
	}
}

func TestTextsBadFamily(t *testing.T) {
	registry := prometheus.NewRegistry()
	page := serve.NewMetrics(registry, slog.New(slog.DiscardHandler)).Page(&changing{families: []*dto.MetricFamily{
		{Name: new("bad"), Type: dto.MetricType_GAUGE.Enum(), Metric: []*dto.Metric{{Counter: &dto.Counter{Value: new(1.0)}}}},
		{Name: new("good"), Type: dto.MetricType_GAUGE.Enum(), Metric: []*dto.Metric{{Gauge: &dto.Gauge{Value: new(1.0)}}}},
	}})
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	if w.Code != http.StatusOK || !slices.Contains(lines(w.Body.String()), "good 1") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	got := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(got, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	if want := `promhttp_metric_handler_errors_total{cause="encoding"} 1`; !slices.Contains(lines(got.Body.String()), want) {
		t.Errorf("no %s in\n%s", want, got.Body)
	}
}

func lines(text string) []string { return strings.Split(text, "\n") }
