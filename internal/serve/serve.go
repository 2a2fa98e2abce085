package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/exporter-toolkit/web"
)

const (
	// listenAgain is the time between two attempts to listen.
	listenAgain = 5 * time.Second
	// grace is the time that open connections get at the end. A driver upgrade
	// waits for the exporter's pod.
	grace = 300 * time.Millisecond
)

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
