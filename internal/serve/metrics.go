package serve

import (
	"io"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics serves the metrics of a program on one or more pages.
type Metrics struct {
	registry *prometheus.Registry
	log      *slog.Logger
	// making is a semaphore: only one response can be rendered at a time. So even if several pages are requested at the
	// same time, only one response needs memory for rendering and compressing.
	making chan struct{}
}

// NewMetrics returns the metrics pages of a program with the given registry. If a scraper disconnects, the failed
// scrape is counted but not logged.
func NewMetrics(registry *prometheus.Registry, log *slog.Logger) *Metrics {
	return &Metrics{registry: registry, log: log, making: make(chan struct{}, 1)}
}

// Main serves the metrics of the registry and of the given gatherers.
func (m *Metrics) Main(more ...prometheus.TransactionalGatherer) http.Handler {
	return m.Page(m.all(more))
}

func (m *Metrics) all(more []prometheus.TransactionalGatherer) prometheus.TransactionalGatherer {
	all := append([]prometheus.TransactionalGatherer{prometheus.ToTransactionalGatherer(m.registry)}, more...)
	return prometheus.NewMultiTRegistry(all...)
}

// MainAfter is like Main, but the page begins with the output of write, which is in the text format. This text is also
// valid at the beginning of an OpenMetrics page, because only the end of an OpenMetrics page differs. The page is never
// in the protobuf format.
func (m *Metrics) MainAfter(write func(io.Writer) error, more ...prometheus.TransactionalGatherer) http.Handler {
	return shared(m.making, after(write, m.handler(m.all(more))))
}

// Page serves a separate page with only the metrics of a gatherer. Failed scrapes of this page are counted on the main
// page.
func (m *Metrics) Page(gatherer prometheus.TransactionalGatherer) http.Handler {
	return shared(m.making, m.handler(gatherer))
}

// Cached is like Page, but for a page that changes rarely. It renders and compresses the page again only when revision
// returns another number.
func (m *Metrics) Cached(gatherer prometheus.TransactionalGatherer, revision func() uint64) http.Handler {
	return shared(m.making, cached(revision, m.handler(gatherer)))
}

func (m *Metrics) handler(gatherer prometheus.TransactionalGatherer) http.Handler {
	return newTexts(gatherer, m.registry, m.log)
}
