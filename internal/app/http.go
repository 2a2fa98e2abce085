package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// newHandler serves the latest snapshot. No path here reads anything else, so a
// scrape costs the same whatever state the driver is in.
func newHandler(latest func() *gpu.Snapshot, cfg Config, log *slog.Logger) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collector.New(latest, cfg.Collector),
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
			{Address: "/metrics", Text: "Metrics", Description: "for Prometheus"},
			{Address: "/inventory", Text: "Inventory", Description: "the GPUs' identity as JSON, in the driver's own words"},
			{Address: "/-/ready", Text: "Ready", Description: "after the first reading"},
		},
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", landing)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		// A scraper that hangs up is no news, and counted all the same.
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ErrorHandling:     promhttp.ContinueOnError,
		Registry:          registry,
		EnableOpenMetrics: true,
		CoalesceGather:    true,
	}))
	mux.Handle("GET /inventory", inventoryHandler(latest))
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("healthy\n"))
	})
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) {
		if latest() == nil {
			http.Error(w, "not ready: nothing was read yet", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ready\n"))
	})
	return mux, nil
}

// listenAgain is the time between two attempts to listen.
const listenAgain = 5 * time.Second

// serve runs the HTTP server until the context ends. An address that is taken is
// tried again: a sidecar that exits would make its pod not ready.
func serve(ctx context.Context, handler http.Handler, cfg Config, log *slog.Logger) error {
	said := ""
	for {
		err := serveOnce(ctx, handler, cfg, log)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			log.Error("not serving, will keep trying", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(listenAgain):
		}
	}
}

func serveOnce(ctx context.Context, handler http.Handler, cfg Config, log *slog.Logger) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}
	served := make(chan error, 1)
	go func() {
		served <- web.ListenAndServe(server, &web.FlagConfig{
			WebListenAddresses: &cfg.ListenAddresses,
			WebSystemdSocket:   new(false),
			WebConfigFile:      &cfg.WebConfigFile,
		}, log)
	}()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	graceful, cancel := context.WithTimeout(context.WithoutCancel(ctx), httpGrace)
	defer cancel()
	if err := server.Shutdown(graceful); err != nil {
		_ = server.Close()
	}
	if err := <-served; err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
