// Command gpuledger is the node exporter: it reads the GPUs of one node, finds out
// which pods use them, keeps their energy books, and serves the result to
// Prometheus. It needs no Kubernetes credentials.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/lmittmann/tint"
	"github.com/prometheus/common/version"
	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/app"
)

func main() {
	cfg, err := app.Parse(os.Args[1:], os.Getenv)
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage()
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "gpuledger:", strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(2)
	case cfg.Version:
		fmt.Println(version.Print("gpuledger"))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log := logger(cfg)
	if err := app.Run(ctx, cfg, log); err != nil {
		log.Error("stopped", "err", err)
		os.Exit(1)
	}
}

// usage prints the flags, for those who ask for help.
func usage() {
	flags, _ := app.Flags(os.Getenv)
	flags.SetOutput(os.Stdout)
	fmt.Println("gpuledger serves which physical GPU served which pod, and for how many joules.")
	flags.PrintDefaults()
}

// logger writes to stderr: for people on a terminal, as JSON elsewhere.
func logger(cfg app.Config) *slog.Logger {
	_, err := unix.IoctlGetTermios(int(os.Stderr.Fd()), unix.TCGETS)
	terminal := err == nil
	if cfg.LogFormat == "text" || cfg.LogFormat == "auto" && terminal {
		return slog.New(tint.NewHandler(os.Stderr, &tint.Options{Level: cfg.LogLevel, NoColor: !terminal}))
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: cfg.LogLevel}))
}
