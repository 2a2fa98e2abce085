package app

import (
	"bytes"
	"log/slog"
	"net/http"

	"github.com/prometheus/common/version"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/health"
	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/internal/status"
)

var links = []status.Link{
	{Path: collector.MainPage.Path(), Text: "Metrics", About: "for Prometheus"},
	{Path: collector.RecordPage.Path(), Text: "Record", About: "serial numbers, placement and energy per pod, for long-term storage"},
	{Path: collector.FieldsPath, Text: "DCGM fields", About: "metrics with the names of dcgm-exporter, and the pod of each GPU"},
	{Path: status.Path, Text: "Status", About: "this page as JSON"},
	{Path: health.Path, Text: "Health", About: "the advice about each GPU as JSON, with its evidence"},
	{Path: inventory.Path, Text: "Inventory", About: "the identity of the GPUs as JSON, with the driver's original strings"},
	{Path: "/-/ready", Text: "Ready", About: "status 200 after the first reading"},
}

func withStatus(latest func() *gpu.Snapshot, now gpu.Clock, log *slog.Logger, contentType string, show func(*bytes.Buffer, *status.Page) error) http.Handler {
	return withSnapshot(latest, func(w http.ResponseWriter, s *gpu.Snapshot) {
		respond(w, log, http.StatusOK, contentType, func(body *bytes.Buffer) error { return show(body, new(status.New(s, now()))) })
	})
}

func healthPage(latest func() *gpu.Snapshot, now gpu.Clock, log *slog.Logger) http.Handler {
	return withSnapshot(latest, func(w http.ResponseWriter, s *gpu.Snapshot) {
		respond(w, log, http.StatusOK, jsonType, func(body *bytes.Buffer) error { return writeJSON(body, health.New(s, now())) })
	})
}

func respond(w http.ResponseWriter, log *slog.Logger, code int, contentType string, show func(*bytes.Buffer) error) {
	var body bytes.Buffer
	if err := show(&body); err != nil {
		log.Error("cannot render a page", "err", err)
		http.Error(w, "cannot render the page, see the log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Security-Policy", status.SecurityPolicy)
	w.Header().Set("Cache-Control", "no-store") // the page must not be cached, because it describes the current state
	w.WriteHeader(code)
	_, _ = w.Write(body.Bytes()) // an error means that the client disconnected
}

func showHTML(w *bytes.Buffer, p *status.Page) error {
	return status.HTML(w, p, version.Info(), links)
}

func showJSON(w *bytes.Buffer, p *status.Page) error { return writeJSON(w, p) }
