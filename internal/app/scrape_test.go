package app_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/app"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/health"
	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/internal/status"
)

// TestScrapesCallNoDriver requests each page. According to the driver's call log, these requests must not call the
// driver.
func TestScrapesCallNoDriver(t *testing.T) {
	sc, err := simnode.Lookup("dgx-h100")
	if err != nil {
		t.Fatal(err)
	}
	b := benchOf(t, sc, false, "--collector.health.details", "--collector.profiling")
	handler := app.NewHandler(b.node.Sampler.Latest, func() gpu.Instant { return b.now }, b.cfg, prometheus.NewGauge(prometheus.GaugeOpts{Name: "test"}), slog.New(slog.DiscardHandler))
	scrape := func(path string) string {
		t.Helper()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	b.run(25)
	calls := b.driverCalls()
	fields := scrape(collector.FieldsPath)
	for _, name := range []string{"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_PCIE_TX_BYTES"} {
		if n := strings.Count(fields, "\n"+name+"{"); n == 0 {
			t.Errorf("%s has no series", name)
		}
	}
	b.step() // the GPUs change, but are not read
	if again := scrape(collector.FieldsPath); again != fields {
		t.Error("the page changed although the GPUs were not read")
	}
	for _, path := range []string{"/", collector.MainPage.Path(), collector.RecordPage.Path(), health.Path, status.Path, inventory.Path} {
		scrape(path)
	}
	if made := b.driverCalls()[len(calls):]; len(made) > 0 {
		t.Errorf("the exporter called the driver during the scrapes:\n%s", made)
	}
	b.run(1)
	if len(b.driverCalls()) == len(calls) || scrape(collector.FieldsPath) == fields {
		t.Error("a tick made no driver call or did not change the page, so this test cannot fail")
	}
}

// TestScrapesAreFresh compares the metrics pages after every tick with the pages of a server that has never rendered a
// page. It omits the metrics of the Go runtime, which differ.
func TestScrapesAreFresh(t *testing.T) {
	sc, err := simnode.Lookup("sick")
	if err != nil {
		t.Fatal(err)
	}
	b := benchOf(t, sc, false, "--collector.health.details", "--collector.profiling")
	fresh := func() http.Handler {
		return app.NewHandler(b.node.Sampler.Latest, func() gpu.Instant { return b.now }, b.cfg, prometheus.NewGauge(prometheus.GaugeOpts{Name: "test"}), slog.New(slog.DiscardHandler))
	}
	scrape := func(handler http.Handler, path string) (lines []string) {
		r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil), httptest.NewRecorder()
		r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
		handler.ServeHTTP(w, r)
		for line := range strings.Lines(w.Body.String()) {
			if strings.Contains(line, "gpuledger_") {
				lines = append(lines, line)
			}
		}
		return lines
	}
	handler := fresh()
	var last []string
	changes := 0
	for range 60 {
		b.step()
		b.run(1)
		for _, path := range []string{collector.MainPage.Path(), collector.RecordPage.Path(), collector.FieldsPath} {
			want, got := scrape(fresh(), path), scrape(handler, path)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", path, diff)
			}
			if path == collector.MainPage.Path() {
				if !slices.Equal(last, got) {
					changes++
				}
				last = got
			}
		}
	}
	if changes < 30 || len(last) < 500 {
		t.Errorf("only %d of %d lines changed, so this test cannot fail", changes, len(last))
	}
}

func (b *bench) driverCalls() []byte {
	b.t.Helper()
	log, err := os.ReadFile(filepath.Join(b.world.Dir(), "driver", "calls.tsv"))
	if err != nil || !bytes.HasSuffix(log, []byte("\n")) {
		b.t.Fatalf("log of %d bytes, error %v", len(log), err)
	}
	return log
}
