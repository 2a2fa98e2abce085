package serve

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics serves the metrics of a program on one page or several.
type Metrics struct {
	registry *prometheus.Registry
	log      *slog.Logger
	// making has room for one answer. What it takes to make one, most of it the
	// compressor, is so there once, also while several pages are asked for.
	making chan struct{}
}

// NewMetrics returns the pages of a program with this registry. A scraper that hangs up is
// no news, and counted all the same.
func NewMetrics(registry *prometheus.Registry, log *slog.Logger) *Metrics {
	return &Metrics{registry: registry, log: log, making: make(chan struct{}, 1)}
}

// Main serves what the registry gathers, and more of other names.
func (m *Metrics) Main(more ...prometheus.TransactionalGatherer) http.Handler {
	all := append([]prometheus.TransactionalGatherer{prometheus.ToTransactionalGatherer(m.registry)}, more...)
	return m.Page(prometheus.NewMultiTRegistry(all...))
}

// Page serves what is gathered on a page of its own, and adds nothing to it: the
// failures of its scrapes are counted on the main page.
func (m *Metrics) Page(gatherer prometheus.TransactionalGatherer) http.Handler {
	return shared(m.making, m.handler(gatherer))
}

// Cached is Page for a page that changes rarely: while revision returns the same number, an
// answer is rendered and compressed once.
func (m *Metrics) Cached(gatherer prometheus.TransactionalGatherer, revision func() uint64) http.Handler {
	return shared(m.making, cached(revision, m.handler(gatherer)))
}

func (m *Metrics) handler(gatherer prometheus.TransactionalGatherer) http.Handler {
	return promhttp.HandlerForTransactional(gatherer, promhttp.HandlerOpts{
		ErrorLog:          slog.NewLogLogger(m.log.Handler(), slog.LevelDebug),
		ErrorHandling:     promhttp.ContinueOnError,
		Registry:          m.registry,
		EnableOpenMetrics: true,
	})
}
