package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/collector"
)

// readErrors makes the driver report the given counts of memory errors for an AMD GPU, and reads the node for half a
// minute. It returns the GPU's correctable and uncorrectable errors in a metric family.
func (b *bench) readErrors(bus, family string, ce, ue, de int) (values [2]float64) {
	b.t.Helper()
	file := filepath.Join(b.world.Dir(), "sys/bus/pci/devices", bus, "ras/umc_err_count")
	if err := os.WriteFile(file+".test", fmt.Appendf(nil, "ue: %d\nce: %d\nde: %d\n", ue, ce, de), 0o644); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Rename(file+".test", file); err != nil {
		b.t.Fatal(err)
	}
	for range 30 { // the simulation is not stepped, because it would overwrite the file
		b.now.Wall, b.now.Boot = b.now.Wall.Add(time.Second), b.now.Boot+time.Second
		b.node.Sampler.Tick(b.t.Context())
	}
	for i, kind := range []string{"correctable", "uncorrectable"} {
		series := fmt.Sprintf(`\n%s\{UUID="%s",error="%s",memory="dram".*\} (\S+)`, family, b.gpus()[0].UUID, kind)
		found := regexp.MustCompile(series).FindStringSubmatch(b.page() + b.record())
		if found == nil {
			b.t.Fatalf("no series %s", series)
		}
		if _, err := fmt.Sscan(found[1], &values[i]); err != nil {
			b.t.Fatal(err)
		}
	}
	return values
}

// TestRASErrorsContinue checks the memory errors of an AMD GPU on /metrics/record. It restarts the exporter, reloads
// the driver, and does both together. The number must not decrease, and no error may count twice. The main page
// contains the driver's own counts, without deferred errors.
func TestRASErrorsContinue(t *testing.T) {
	b := newBench(t, "mi300x", false)
	b.run(1)
	const first = "0000:05:00.0"
	for i, tt := range []struct {
		ce, ue, de int
		restart    bool
		want       [2]float64
	}{
		{ce: 100, ue: 1, de: 2, want: [2]float64{100, 3}},
		{ce: 107, ue: 1, de: 3, want: [2]float64{107, 4}},
		{ce: 107, ue: 1, de: 3, restart: true, want: [2]float64{107, 4}},
		{ce: 110, ue: 1, de: 3, restart: true, want: [2]float64{110, 4}},
		{ce: 0, ue: 0, de: 0, want: [2]float64{110, 4}}, // the driver was reloaded
		{ce: 5, ue: 0, de: 1, want: [2]float64{115, 5}},
		{ce: 5, ue: 0, de: 1, restart: true, want: [2]float64{115, 5}},
		{ce: 2, ue: 1, de: 0, restart: true, want: [2]float64{117, 6}}, // the driver was reloaded before the restart
		{ce: 3, ue: 1, de: 0, want: [2]float64{118, 6}},
	} {
		if tt.restart {
			b.stop()
			b.start()
		}
		if got := b.readErrors(first, "gpuledger_board_ras_errors_total", tt.ce, tt.ue, tt.de); got != tt.want {
			t.Errorf("reading %d: %v errors, want %v", i, got, tt.want)
		}
		if got, want := b.readErrors(first, "gpuledger_gpu_ecc_errors_total", tt.ce, tt.ue, tt.de), [2]float64{float64(tt.ce), float64(tt.ue)}; got != want {
			t.Errorf("reading %d: the page has %v errors, want %v", i, got, want)
		}
	}
}

func (b *bench) rasCreated() (all []time.Time) {
	b.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector.NewRecord(b.node.Sampler.Latest))
	families, err := registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "gpuledger_board_ras_errors_total" {
			for _, m := range f.GetMetric() {
				all = append(all, m.GetCounter().GetCreatedTimestamp().AsTime())
			}
		}
	}
	return slices.CompactFunc(all, time.Time.Equal)
}

// TestRASErrorsCreated checks the created timestamps of AMD GPUs' memory errors on /metrics/record. They must be the
// boot time, because no driver was loaded before. If the clock is set and the exporter restarts, the timestamp must
// stay the same.
func TestRASErrorsCreated(t *testing.T) {
	b := newBench(t, "mi300x", false)
	want := []time.Time{time.Date(2026, 2, 19, 12, 0, 0, 0, time.UTC)} // ten days before the start
	b.run(1)
	if diff := cmp.Diff(want, b.rasCreated()); diff != "" {
		t.Errorf("created (-boot +record):\n%s", diff)
	}
	b.stop()
	b.now.Wall = b.now.Wall.Add(time.Hour)
	b.start()
	b.run(1)
	if diff := cmp.Diff(want, b.rasCreated()); diff != "" {
		t.Errorf("created after the clock was set (-boot +record):\n%s", diff)
	}
}
