package serve

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// maxTexts is the maximum total size of the family texts that are kept for a page, in bytes. On larger pages, most
// families change between scrapes, so keeping more texts would not help.
const maxTexts = 256 << 10

// texts serves a gatherer in the text formats. Most values do not change between scrapes, so the text of an unchanged
// family is reused. Compression is optimised for speed, not for size. The gatherer must not modify label pairs that it
// has returned. texts serves only one request at a time, so [shared] must call it. If a request needs another format,
// or if gathering fails, promhttp serves the request.
type texts struct {
	gatherer prometheus.TransactionalGatherer
	others   http.Handler // the handler for other requests, which gathers from result
	result   *gatheredOnce
	failed   *prometheus.CounterVec // promhttp's counter of failures
	log      *slog.Logger

	format  expfmt.Format // format of the texts in kept
	kept    []familyText  // families of the last response, in the order of the page
	spare   []familyText  // families of the response before the last response; the next response overwrites them
	scratch bytes.Buffer
	encoder expfmt.Encoder // writes to the buffer scratch
}

type gatheredOnce struct {
	families []*dto.MetricFamily
	err      error
}

// Gather implements [prometheus.TransactionalGatherer].
func (g *gatheredOnce) Gather() ([]*dto.MetricFamily, func(), error) {
	return g.families, func() {}, g.err
}

func newTexts(gatherer prometheus.TransactionalGatherer, registry *prometheus.Registry, log *slog.Logger) *texts {
	t := &texts{gatherer: gatherer, result: new(gatheredOnce), log: log}
	t.others = promhttp.HandlerForTransactional(t.result, promhttp.HandlerOpts{
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ErrorHandling:     promhttp.ContinueOnError,
		Registry:          registry,
		EnableOpenMetrics: true,
		// Responses with these two encodings can be concatenated.
		OfferedCompressions: []promhttp.Compression{promhttp.Identity, promhttp.Gzip},
	})
	t.failed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "promhttp_metric_handler_errors_total", Help: "Total number of internal errors encountered by the promhttp metric handler.",
	}, []string{"cause"})
	if registered, ok := errors.AsType[prometheus.AlreadyRegisteredError](registry.Register(t.failed)); ok {
		t.failed = registered.ExistingCollector.(*prometheus.CounterVec)
	}
	return t
}

// ServeHTTP implements [http.Handler].
func (t *texts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	families, done, err := t.gatherer.Gather()
	defer done()
	format := expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...)
	compressed, simple := wantsGzip(r.Header)
	if kind := format.FormatType(); err != nil || !simple || r.URL.RawQuery != "" || kind != expfmt.TypeTextPlain && kind != expfmt.TypeOpenMetrics {
		t.result.families, t.result.err = families, err
		t.others.ServeHTTP(w, r)
		t.result.families = nil
		return
	}
	w.Header().Add("Vary", "Accept")
	w.Header().Add("Vary", "Accept-Encoding")
	w.Header().Set("Content-Type", string(format))
	if !compressed {
		t.write(w, format, families)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	z := compressors.Get().(*gzip.Writer)
	defer compressors.Put(z)
	z.Reset(w)
	t.write(z, format, families)
	_ = z.Close() // an error means that the client disconnected
}

var compressors = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the error is always nil, because the compression level is valid
	return z
}}

// wantsGzip reports whether a request accepts gzip. simple is false if the header Accept-Encoding contains weights or a
// wildcard.
func wantsGzip(header http.Header) (wants, simple bool) {
	accepted := strings.Join(header["Accept-Encoding"], ",")
	if strings.ContainsAny(accepted, ";*") {
		return false, false
	}
	for encoding := range strings.SplitSeq(accepted, ",") {
		switch strings.TrimSpace(encoding) {
		case "gzip":
			wants = true
		case "identity":
			return false, true
		}
	}
	return wants, true
}

func (t *texts) write(w io.Writer, format expfmt.Format, families []*dto.MetricFamily) {
	if format != t.format {
		t.kept, t.format, t.encoder = nil, format, expfmt.NewEncoder(&t.scratch, format)
	}
	direct := expfmt.NewEncoder(w, format)
	room, last, page := maxTexts, t.kept, t.spare[:0]
	for _, f := range families {
		for len(last) > 0 && last[0].name < f.GetName() {
			last = last[1:]
		}
		text := familyText{name: f.GetName()}
		if len(last) > 0 && last[0].name == text.name {
			text, last[0] = last[0], familyText{}
		}
		if !text.matches(f) && !t.encode(&text, f, room) {
			t.encodeTo(direct, f)
			continue
		}
		_, _ = w.Write(text.text) // an error means that the client disconnected
		if room -= len(text.text); room >= 0 {
			page = append(page, text)
		}
	}
	clear(t.kept)
	t.kept, t.spare = page, t.kept
	if closer, ok := direct.(expfmt.Closer); ok {
		_ = closer.Close() // writes the last line of OpenMetrics
	}
}

// encode encodes a family into a text that is kept for later responses. The text reuses the memory of an earlier
// response. encode returns false if the text cannot be kept, for example because its estimated size in bytes exceeds
// room.
func (t *texts) encode(to *familyText, f *dto.MetricFamily, room int) bool {
	if leastSize(f) > room || !to.take(f) {
		return false
	}
	t.scratch.Reset()
	t.encodeTo(t.encoder, f)
	to.text = append(to.text[:0], t.scratch.Bytes()...)
	return true
}

func leastSize(f *dto.MetricFamily) int {
	if len(f.Metric) == 0 {
		return 0
	}
	size := len(f.GetName())
	for _, l := range f.Metric[0].Label {
		size += len(l.GetName()) + len(l.GetValue())
	}
	return size * len(f.Metric)
}

// encodeTo encodes a family. If this fails, encodeTo counts the failure, and the rest of the page is still served.
func (t *texts) encodeTo(encoder expfmt.Encoder, f *dto.MetricFamily) {
	if err := encoder.Encode(f); err != nil {
		t.log.Debug("encode metric family", "err", err)
		t.failed.WithLabelValues("encoding").Inc()
	}
}

// A familyText is the text of a family of gauges or counters. It also contains the values and labels from which the
// text was encoded.
type familyText struct {
	name, help string
	kind       dto.MetricType
	series     []seriesText
	text       []byte
}

type seriesText struct {
	labels []*dto.LabelPair
	bits   uint64 // binary representation of the value, so that NaN equals NaN
}

// take copies the content of a family. It returns false if the family contains other metrics than gauges and counters.
func (t *familyText) take(f *dto.MetricFamily) bool {
	t.help, t.kind, t.series = f.GetHelp(), f.GetType(), slices.Grow(t.series[:0], len(f.Metric))
	for _, m := range f.Metric {
		s, ok := contentOf(m, t.kind)
		if !ok {
			return false
		}
		t.series = append(t.series, s)
	}
	return true
}

// matches reports whether the text is still valid for a family. It compares the values of all series. It compares label
// pairs by their pointers, because the gatherer does not modify them. It ignores created timestamps, which the text
// does not contain.
func (t *familyText) matches(f *dto.MetricFamily) bool {
	if len(t.text) == 0 || t.help != f.GetHelp() || t.kind != f.GetType() || len(t.series) != len(f.Metric) {
		return false
	}
	for i, m := range f.Metric {
		if s, ok := contentOf(m, t.kind); !ok || !s.equals(&t.series[i]) {
			return false
		}
	}
	return true
}

func contentOf(m *dto.Metric, kind dto.MetricType) (s seriesText, ok bool) {
	if m.TimestampMs != nil {
		return s, false
	}
	switch s.labels = m.Label; {
	case kind == dto.MetricType_GAUGE && m.Gauge != nil:
		s.bits = math.Float64bits(m.Gauge.GetValue())
		return s, true
	case kind == dto.MetricType_COUNTER && m.Counter != nil && m.Counter.Exemplar == nil:
		s.bits = math.Float64bits(m.Counter.GetValue())
		return s, true
	}
	return s, false
}

func (s *seriesText) equals(o *seriesText) bool {
	return s.bits == o.bits && len(s.labels) == len(o.labels) && (len(s.labels) == 0 || &s.labels[0] == &o.labels[0])
}
