//go:build e2e

package queries_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/app"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// TestErrorsBeforeExporter checks a Prometheus with the feature in zeros. It must count the memory errors of an AMD GPU
// between the load of the driver and the start of the exporter. The machine booted ten minutes ago, and the driver was
// loaded five minutes later. Since then, the GPU has had a correctable error every four seconds, so the exporter first
// reads 75 errors.
func TestErrorsBeforeExporter(t *testing.T) {
	dir, err := os.MkdirTemp("", "node") // a short path, because it contains a socket
	check(t, err)
	defer os.RemoveAll(dir)
	sc, err := simnode.Lookup("mi300x")
	check(t, err)
	boot := time.Now().Add(-10 * time.Minute)
	after := func(d time.Duration) gpu.Instant { return gpu.Instant{Wall: boot.Add(d), Boot: d} }
	world, err := simnode.Open(dir, sc, after(5*time.Minute))
	check(t, err)
	defer world.Close()
	check(t, world.Step(after(10*time.Minute)))
	for _, env := range world.Env() {
		name, value, _ := strings.Cut(env, "=")
		t.Setenv(name, value)
	}
	cfg, err := app.Parse(world.Flags(), os.Getenv)
	check(t, err)
	node := app.NewNode(cfg, func() gpu.Instant { return after(10 * time.Minute) }, slog.New(slog.DiscardHandler))
	defer node.Source.Close(time.Second)
	defer node.Sampler.Close()
	node.Sampler.Tick(t.Context())

	registry := prom.NewPedanticRegistry()
	registry.MustRegister(collector.NewRecord(node.Sampler.Latest))
	exporter := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer exporter.Close()
	store := server(t)
	store.Flags = []string{zeros}
	store.Config = fmt.Appendf(nil, "global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: record\n  static_configs: [{targets: ['%s']}]\n",
		exporter.Listener.Addr())
	_, err = store.Start(t.Context())
	check(t, err)

	errors := fmt.Sprintf(`gpuledger_board_ras_errors_total{UUID=%q, memory="dram", error="correctable"}`, sc.GPUs[2].UUID)
	for _, tt := range []struct {
		query string
		at    time.Time
		want  float64
	}{
		{errors, time.Now().Add(time.Minute), 75},
		{errors, boot.Add(time.Minute), 0},
		{"max_over_time(" + errors + "[20m]) - min_over_time(" + errors + "[20m])", time.Now().Add(time.Minute), 75},
	} {
		eventually(t, tt.query, func() error {
			got, err := prometheus.Query(t.Context(), store.URL(), tt.query, tt.at)
			if err == nil && (len(got) != 1 || got[0].Value != tt.want) {
				err = fmt.Errorf("got %v, want %v", got, tt.want)
			}
			return err
		})
	}
}
