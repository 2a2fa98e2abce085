package app

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/serve"
)

// newHandler serves the latest snapshot. No path here reads anything else, so a
// scrape costs the same whatever state the driver is in.
func newHandler(latest func() *gpu.Snapshot, cfg Config, log *slog.Logger) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		versioncollector.NewCollector("gpuledger"),
		// The process collector is left out: it reads /proc in the scrape.
		collectors.NewGoCollector(),
	)
	landing, err := web.NewLandingPage(web.LandingConfig{
		Name:        "gpuledger",
		Description: "Which physical GPU served which pod, when, and for how many joules",
		Version:     version.Info(),
		Profiling:   "false",
		Links: []web.LandingLinks{
			{Address: collector.MainPage.Path(), Text: "Metrics", Description: "for Prometheus"},
			{Address: collector.RecordPage.Path(), Text: "Record", Description: "what is worth keeping for years: placement and energy per pod, with serial numbers"},
			{Address: "/inventory", Text: "Inventory", Description: "the GPUs' identity as JSON, in the driver's own words"},
			{Address: "/-/ready", Text: "Ready", Description: "after the first reading"},
		},
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", landing)
	mux.Handle("GET "+collector.MainPage.Path(), serve.Metrics(registry, log, collector.New(latest, cfg.Collector)))
	mux.Handle("GET "+collector.RecordPage.Path(), serve.Page(collector.NewRecord(latest), registry, log))
	mux.Handle("GET /inventory", inventoryHandler(latest))
	mux.HandleFunc("GET /-/healthy", serve.Healthy)
	mux.HandleFunc("GET /-/ready", serve.Ready(func() string {
		if latest() == nil {
			return "nothing was read yet"
		}
		return ""
	}))
	return mux, nil
}
