package app

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/prometheus/common/version"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/serve"
	"github.com/gpuledger/gpuledger/internal/status"
)

// ExplainConfig is the configuration of the explain command.
type ExplainConfig struct {
	StatusConfig
	status.Query
}

// ExplainFlags returns the flag set of the explain command.
func ExplainFlags() (*flag.FlagSet, *ExplainConfig) {
	var c ExplainConfig
	fs := flag.NewFlagSet("gpuledger "+Explain, flag.ContinueOnError)
	c.register(fs)
	fs.StringVar(&c.GPU, "gpu", "", "the `GPU`: its index, UUID (or the beginning of the UUID), serial number or PCI address; may be omitted on a node with one GPU")
	fs.StringVar(&c.Owner, "owner", "", "the `owner`: namespace/pod, namespace/pod/container, manager/unit, a UID, or the name of a pod or unit if it is unique, such as 4711 or job 4711")
	fs.DurationVar(&c.Since, "since", status.DefaultSince, "explain the charges of this `time` until now; the exporter keeps no intervals older than its --explain.period")
	return fs, &c
}

func (c *ExplainConfig) validate() error {
	if c.Since <= 0 {
		return fmt.Errorf("--since=%v: must be positive", c.Since)
	}
	return nil
}

// ShowExplanation requests an explanation from a running exporter and prints it.
func ShowExplanation(ctx context.Context, cfg ExplainConfig, out io.Writer) error {
	get := func(ctx context.Context, client *http.Client, base string) (*status.Explanation, error) {
		return status.GetExplanation(ctx, client, base, cfg.Query)
	}
	return show(ctx, cfg.StatusConfig, out, get, status.WriteExplanation)
}

func explanationPage(latest func() *gpu.Snapshot, log *slog.Logger) http.Handler {
	return explanations(latest, func(w http.ResponseWriter, e *status.Explanation) {
		respond(w, log, http.StatusOK, htmlType, func(body *bytes.Buffer) error { return status.ExplanationHTML(body, e, version.Info()) })
	}, func(w http.ResponseWriter, e status.QueryError) {
		respond(w, log, http.StatusBadRequest, htmlType, func(body *bytes.Buffer) error { return status.QueryErrorHTML(body, e, version.Info()) })
	})
}

func explanationJSON(latest func() *gpu.Snapshot, log *slog.Logger) http.Handler {
	return explanations(latest, func(w http.ResponseWriter, e *status.Explanation) {
		respond(w, log, http.StatusOK, jsonType, func(body *bytes.Buffer) error { return writeJSON(body, e) })
	}, func(w http.ResponseWriter, e status.QueryError) { e.Respond(w) })
}

// explanations decodes intervals for only one response at a time, so that many requests occupy at most one processor.
// If the query is invalid, explanations calls refuse.
func explanations(latest func() *gpu.Snapshot, show func(http.ResponseWriter, *status.Explanation), refuse func(http.ResponseWriter, status.QueryError)) http.Handler {
	return serve.OneAtATime(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		withSnapshot(latest, func(w http.ResponseWriter, s *gpu.Snapshot) {
			e, err := explain(s, r)
			if wrong := status.QueryError(""); errors.As(err, &wrong) {
				refuse(w, wrong)
				return
			}
			show(w, e)
		}).ServeHTTP(w, r)
	}))
}

func explain(s *gpu.Snapshot, r *http.Request) (*status.Explanation, error) {
	q, err := status.ParseQuery(r.URL.Query())
	if err != nil {
		return nil, err
	}
	return status.Explain(s, q)
}
