package app_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/app"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

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

// TestFieldsNeedFlags checks the warnings about fields that are not read without profiling or without the details of
// health.
func TestFieldsNeedFlags(t *testing.T) {
	fields := filepath.Join(t.TempDir(), "fields.csv")
	rows := "DCGM_FI_DEV_GPU_TEMP, gauge, Temperature.\nDCGM_FI_PROF_SM_ACTIVE, gauge, Activity.\nDCGM_FI_DEV_INFOROM_IMAGE_VER, label, Version.\n"
	if err := os.WriteFile(fields, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	profiling := `because a flag is not set" flag=--collector.profiling file=` + fields + " fields=DCGM_FI_PROF_SM_ACTIVE"
	details := `because a flag is not set" flag=--collector.health.details file=` + fields + " fields=DCGM_FI_DEV_INFOROM_IMAGE_VER"
	for _, tt := range []struct {
		flags []string
		warns []string
	}{
		{[]string{"--gpu-metrics.source=nvml", "--dcgm.fields=" + fields}, []string{profiling, details}},
		{[]string{"--gpu-metrics.source=nvml", "--dcgm.fields=" + fields, "--collector.profiling"}, []string{details}},
		{[]string{"--gpu-metrics.source=nvml", "--dcgm.fields=" + fields, "--collector.health.details"}, []string{profiling}},
		{[]string{"--gpu-metrics.source=nvml"}, nil},
		{[]string{"--dcgm.address=localhost", "--dcgm.fields=" + fields}, nil},
	} {
		cfg, err := app.Parse(append(tt.flags, "--state.path="+t.TempDir()), func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		app.NewNode(cfg, func() gpu.Instant { return gpu.Instant{} }, slog.New(slog.NewTextHandler(&log, nil)))
		text := log.String()
		missing := func(warning string) bool { return !strings.Contains(text, warning) }
		if slices.ContainsFunc(tt.warns, missing) || strings.Count(text, "level=WARN") != len(tt.warns) {
			t.Errorf("%q: want the warnings %q\n%s", tt.flags, tt.warns, text)
		}
	}
}
