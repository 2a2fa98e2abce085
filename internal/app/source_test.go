package app_test

import (
	"testing"

	"github.com/gpuledger/gpuledger/internal/app"
)

// TestHostnameLabel checks that the node's label on the field page is Hostname or hostname.
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
