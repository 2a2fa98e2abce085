package archive

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web"

	"github.com/gpuledger/gpuledger/internal/event"
	"github.com/gpuledger/gpuledger/internal/serve"
)

func newMux(log *slog.Logger, more ...prometheus.Collector) (*http.ServeMux, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(append(more,
		versioncollector.NewCollector("gpuledger_archive"),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)...)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", serve.NewMetrics(registry, log).Main())
	mux.HandleFunc("GET /-/healthy", serve.Healthy)
	return mux, registry
}

// The handler does not read the store.
func (a *archive) handler(server prometheus.Collector) (http.Handler, error) {
	landing, err := web.NewLandingPage(web.LandingConfig{
		Name:        "gpuledger-archive",
		Description: "Files the long-term record of GPU fleets as tables",
		Version:     version.Info(),
		Profiling:   "false",
		Links:       []web.LandingLinks{{Address: "/metrics", Text: "Metrics", Description: "for Prometheus"}},
	})
	if err != nil {
		return nil, err
	}
	mux, registry := newMux(a.log, append(a.metrics.collectors(), server)...)
	if a.site != nil {
		a.site.Register(mux)
	} else {
		mux.Handle("/", landing)
	}
	if a.receiver != nil {
		registry.MustRegister(a.receiver)
		mux.Handle("POST "+event.Path, a.receiver)
	}
	return mux, nil
}
