package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/common/config"

	"github.com/gpuledger/gpuledger/internal/status"
)

const statusTimeout = 10 * time.Second

// StatusConfig is the configuration of the status command.
type StatusConfig struct {
	URL        string
	JSON       bool
	HTTPConfig string
	// Unit selects the unit to print instead of the state of the node. It may be empty.
	Unit string
}

func (c *StatusConfig) register(fs *flag.FlagSet) {
	fs.SetOutput(io.Discard)
	fs.StringVar(&c.URL, "url", "http://127.0.0.1:9840", "`address` of the exporter")
	fs.BoolVar(&c.JSON, "json", false, "print the exporter's JSON response")
	fs.StringVar(&c.HTTPConfig, "http.config.file", "", "`file` with TLS and basic auth settings of an HTTP client, in the format of promtool's --http.config.file; /dev/stdin reads standard input")
}

// StatusFlags returns the flag set of the status command.
func StatusFlags() (*flag.FlagSet, *StatusConfig) {
	var c StatusConfig
	fs := flag.NewFlagSet("gpuledger "+Status, flag.ContinueOnError)
	c.register(fs)
	fs.StringVar(&c.Unit, "unit", "", "print the energy and the boards of one unit in one line; the unit is `manager/unit`, such as slurm/4711")
	return fs, &c
}

// ShowStatus requests the state of the node from a running exporter and prints it.
func ShowStatus(ctx context.Context, cfg StatusConfig, out io.Writer) error {
	write := status.Write
	if cfg.Unit != "" {
		write = func(w io.Writer, p *status.Page) error { return status.WriteReceipt(w, p, cfg.Unit) }
	}
	return show(ctx, cfg, out, status.Get, write)
}

func show[T any](ctx context.Context, cfg StatusConfig, out io.Writer,
	get func(context.Context, *http.Client, string) (T, error), write func(io.Writer, T) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	client, err := httpClient(cfg.HTTPConfig)
	if err != nil {
		return fmt.Errorf("--http.config.file=%s: %w", cfg.HTTPConfig, err)
	}
	value, err := get(ctx, client, cfg.URL)
	switch {
	case errors.As(err, new(status.QueryError)):
		return err
	case err != nil:
		return fmt.Errorf("--url: %w", err)
	case cfg.JSON:
		return writeJSON(out, value)
	}
	return write(out, value)
}

func httpClient(file string) (*http.Client, error) {
	if file == "" {
		return http.DefaultClient, nil
	}
	cfg, _, err := config.LoadHTTPConfigFile(file)
	if err != nil {
		return nil, err
	}
	return config.NewClientFromConfig(*cfg, "gpuledger-status")
}
