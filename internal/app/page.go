package app

import (
	"bytes"
	"log/slog"
	"net/http"

	"github.com/prometheus/common/version"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/internal/status"
)

// links are the other pages, as the page for people shows them.
var links = []status.Link{
	{Path: collector.MainPage.Path(), Text: "Metrics", About: "for Prometheus"},
	{Path: collector.RecordPage.Path(), Text: "Record", About: "what is worth keeping for years: placement and energy per pod, with serial numbers"},
	{Path: collector.FieldsPath, Text: "DCGM fields", About: "with the pod that holds each GPU; empty without --dcgm.fields"},
	{Path: status.Path, Text: "Status", About: "this page as JSON"},
	{Path: inventory.Path, Text: "Inventory", About: "the GPUs' identity as JSON, in the driver's own words"},
	{Path: "/-/ready", Text: "Ready", About: "after the first reading"},
}

// withStatus answers with what show makes of the state of the node. The answer is complete
// before it is sent.
func withStatus(latest func() *gpu.Snapshot, now gpu.Clock, log *slog.Logger, contentType string, show func(*bytes.Buffer, *status.Page) error) http.Handler {
	return withSnapshot(latest, func(w http.ResponseWriter, s *gpu.Snapshot) {
		var body bytes.Buffer
		if err := show(&body, new(status.New(s, now()))); err != nil {
			log.Error("show the state of the node", "err", err)
			http.Error(w, "the page could not be written, see the log", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Content-Security-Policy", status.SecurityPolicy)
		w.Header().Set("Cache-Control", "no-store") // what it says is of this moment
		_, _ = w.Write(body.Bytes())                // an error here is the client's going away
	})
}

func showHTML(w *bytes.Buffer, p *status.Page) error {
	return status.HTML(w, p, version.Info(), links)
}

func showJSON(w *bytes.Buffer, p *status.Page) error { return writeJSON(w, p) }
