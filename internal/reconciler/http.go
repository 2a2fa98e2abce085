package reconciler

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web"

	"github.com/gpuledger/gpuledger/internal/serve"
)

// handler serves pages from memory, without requests to the API server.
func (p *program) handler(server prometheus.Collector) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		versioncollector.NewCollector("gpuledger_reconciler"),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		p.election.gauge(), p.failures, p.nodes, server,
	)
	if p.expected != nil {
		registry.MustRegister(p.expected)
	}
	if p.outbox != nil {
		registry.MustRegister(p.outbox)
	}
	if p.injector != nil {
		registry.MustRegister(p.injector)
	}
	landing, err := web.NewLandingPage(web.LandingConfig{
		Name:        "gpuledger-reconciler",
		Description: "Node labels with the identity of GPUs, and the workloads of GPU pods",
		Version:     version.Info(),
		Profiling:   "false",
		Links: []web.LandingLinks{
			{Address: "/metrics", Text: "Metrics", Description: "for Prometheus"},
			{Address: "/-/ready", Text: "Ready", Description: "after a leader was elected"},
		},
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", landing)
	mux.Handle("GET /metrics", serve.NewMetrics(registry, p.log).MainAfter(p.workloads.WritePage, p.workloads))
	mux.HandleFunc("GET /-/healthy", serve.Healthy)
	mux.HandleFunc("GET /-/ready", serve.Ready(func() string {
		if !p.election.settled.Load() {
			return "no leader elected yet"
		}
		if p.injector != nil {
			return p.injector.NotReady()
		}
		return ""
	}))
	return mux, nil
}
