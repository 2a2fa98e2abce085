package app

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/health"
	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/internal/serve"
	"github.com/gpuledger/gpuledger/internal/status"
)

// newHandler returns a handler that serves the latest snapshot. No path reads the driver, so the
// cost of a scrape does not depend on the driver's state.
func newHandler(latest func() *gpu.Snapshot, now gpu.Clock, cfg Config, server prometheus.Collector, log *slog.Logger) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		versioncollector.NewCollector("gpuledger"),
		// The process collector is omitted, because it would read /proc during the scrape.
		collectors.NewGoCollector(),
		server,
	)
	fields := cfg.DCGM.page(latest)
	metrics := serve.NewMetrics(registry, log)
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", withStatus(latest, now, log, htmlType, showHTML))
	mux.Handle("GET "+status.Path, withStatus(latest, now, log, jsonType, showJSON))
	mux.Handle("GET "+status.ExplainPagePath, explanationPage(latest, log))
	mux.Handle("GET "+status.ExplainPath, explanationJSON(latest, log))
	mux.Handle("GET "+collector.MainPage.Path(), metrics.Main(collector.New(latest, cfg.Collector)))
	mux.Handle("GET "+collector.RecordPage.Path(), metrics.Page(collector.NewRecord(latest)))
	mux.Handle("GET "+collector.FieldsPath, metrics.Cached(fields, fields.Revision))
	mux.Handle("GET "+health.Path, healthPage(latest, now, log))
	mux.Handle("GET "+inventory.Path, withSnapshot(latest, showInventory))
	mux.HandleFunc("GET /-/healthy", serve.Healthy)
	mux.HandleFunc("GET /-/ready", serve.Ready(func() string {
		if latest() == nil {
			return nothingYet
		}
		if err := cfg.replaced(); err != nil {
			return err.Error()
		}
		return ""
	}))
	return mux
}

const (
	htmlType = "text/html; charset=utf-8"
	jsonType = "application/json"
)

const nothingYet = "no reading yet"

// Until the first snapshot exists, withSnapshot responds with status 503.
func withSnapshot(latest func() *gpu.Snapshot, show func(http.ResponseWriter, *gpu.Snapshot)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := latest()
		if s == nil {
			http.Error(w, "not ready: "+nothingYet, http.StatusServiceUnavailable)
			return
		}
		show(w, s)
	})
}

func showInventory(w http.ResponseWriter, s *gpu.Snapshot) {
	w.Header().Set("Content-Type", "application/json")
	_ = writeJSON(w, inventory.New(s)) // an error means that the client disconnected
}

func writeJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(value)
}
