package app_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/app"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// TestHostnameLabel checks that the node label on the field page can be Hostname or hostname.
func TestHostnameLabel(t *testing.T) {
	noEnvironment := func(string) string { return "" }
	for label, want := range map[string]string{
		"Hostname": "", "hostname": "",
		"node": "--dcgm.hostname-label=node: must be Hostname or hostname",
	} {
		cfg, err := app.Parse([]string{"--dcgm.hostname-label=" + label}, noEnvironment)
		if want == "" && (err != nil || cfg.DCGM.HostnameLabel != label) || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: label %q, error %v", label, cfg.DCGM.HostnameLabel, err)
		}
	}
	if cfg, err := app.Parse(nil, noEnvironment); err != nil || cfg.DCGM.HostnameLabel != "Hostname" {
		t.Errorf("default label %q, error %v; want Hostname", cfg.DCGM.HostnameLabel, err)
	}
}

// TestProfiledFields checks the warning about fields that have no values without profiling.
func TestProfiledFields(t *testing.T) {
	fields := filepath.Join(t.TempDir(), "fields.csv")
	if err := os.WriteFile(fields, []byte("DCGM_FI_DEV_GPU_TEMP, gauge, Temperature.\nDCGM_FI_PROF_SM_ACTIVE, gauge, Activity.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		flags []string
		warns bool
	}{
		{[]string{"--gpu-metrics.source=nvml", "--dcgm.fields=" + fields}, true},
		{[]string{"--gpu-metrics.source=nvml", "--dcgm.fields=" + fields, "--collector.profiling"}, false},
		{[]string{"--gpu-metrics.source=nvml"}, false},
		{[]string{"--dcgm.address=localhost", "--dcgm.fields=" + fields}, false},
	} {
		cfg, err := app.Parse(append(tt.flags, "--state.path="+t.TempDir()), func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		app.NewNode(cfg, func() gpu.Instant { return gpu.Instant{} }, slog.New(slog.NewTextHandler(&log, nil)))
		text := log.String()
		if warns := strings.Contains(text, "without --collector.profiling") && strings.Contains(text, "fields=DCGM_FI_PROF_SM_ACTIVE"); warns != tt.warns || strings.Count(text, "level=WARN") > 1 {
			t.Errorf("%q: warns %v, want %v\n%s", tt.flags, warns, tt.warns, text)
		}
	}
}
