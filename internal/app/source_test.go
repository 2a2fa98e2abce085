package app_test

import (
	"testing"

	"github.com/gpuledger/gpuledger/internal/app"
)

// TestHostnameLabel: the label for the node on the field page has one of two spellings.
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
		t.Errorf("by default the label is %q, error %v", cfg.DCGM.HostnameLabel, err)
	}
}
