package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/exporter-toolkit/web"
)

const (
	// listenAgain is the time between two attempts to listen.
	listenAgain = 5 * time.Second
	// grace is the time that open connections get at the end. A driver upgrade
	// waits for the exporter's pod.
	grace = 300 * time.Millisecond
)

// Metrics serves what the registry gathers, and more of other names. A scraper that
// hangs up is no news, and counted all the same.
func Metrics(registry *prometheus.Registry, log *slog.Logger, more ...prometheus.TransactionalGatherer) http.Handler {
	all := append([]prometheus.TransactionalGatherer{prometheus.ToTransactionalGatherer(registry)}, more...)
	return metrics(prometheus.NewMultiTRegistry(all...), registry, log)
}

// Page serves what is gathered on a page of its own, and adds nothing to it: the
// failures of its scrapes are counted on the main page, which is the registry's.
func Page(own prometheus.TransactionalGatherer, main *prometheus.Registry, log *slog.Logger) http.Handler {
	return metrics(own, main, log)
}

func metrics(gatherer prometheus.TransactionalGatherer, failures *prometheus.Registry, log *slog.Logger) http.Handler {
	return shared(promhttp.HandlerForTransactional(gatherer, promhttp.HandlerOpts{
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ErrorHandling:     promhttp.ContinueOnError,
		Registry:          failures,
		EnableOpenMetrics: true,
	}))
}

// Healthy answers for as long as the program can.
func Healthy(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("healthy\n")) }

// Ready answers 200 while notYet returns nothing, and else says what is missing.
func Ready(notYet func() string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if missing := notYet(); missing != "" {
			http.Error(w, "not ready: "+missing, http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ready\n"))
	}
}

// Run serves until the context ends. An address that is taken is tried again: a
// sidecar that exits would make its pod not ready.
func Run(ctx context.Context, handler http.Handler, cfg Config, log *slog.Logger) error {
	said := ""
	for {
		err := once(ctx, handler, cfg, log)
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

func once(ctx context.Context, handler http.Handler, cfg Config, log *slog.Logger) error {
	listeners, err := listen(cfg)
	if err != nil {
		return err
	}
	defer closeAll(listeners)
	server := newServer(handler, cfg)
	served := make(chan error, 1)
	go func() {
		served <- web.ServeMultiple(listeners, server, &web.FlagConfig{WebConfigFile: &cfg.WebConfigFile}, log)
	}()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	graceful, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := server.Shutdown(graceful); err != nil {
		_ = server.Close()
	}
	if err := <-served; err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
