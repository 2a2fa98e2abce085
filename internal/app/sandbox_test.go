package app_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/app"
	"github.com/gpuledger/gpuledger/internal/sandbox"
)

func TestSandboxRules(t *testing.T) {
	tests := []struct {
		name  string
		flags []string
		want  sandbox.Rules
	}{
		{"default", nil, sandbox.Rules{State: "/run/gpuledger", Devices: "/dev"}},
		{"state folder", []string{"--state.path=/srv/books"}, sandbox.Rules{State: "/srv/books", Devices: "/dev"}},
		{"features", []string{"--nfd.features=/etc/nfd"}, sandbox.Rules{State: "/run/gpuledger", Features: "/etc/nfd", Devices: "/dev"}},
		{"socket", []string{"--dcgm.address=/run/nvidia/dcgm.sock"}, sandbox.Rules{State: "/run/gpuledger", Devices: "/dev"}},
		{"port", []string{"--dcgm.address=dcgm.svc:5556"}, sandbox.Rules{State: "/run/gpuledger", Devices: "/dev", Ports: []uint16{5556, 53}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := app.Parse(append([]string{"--state.path=/run/gpuledger"}, tt.flags...), func(string) string { return "" })
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, cfg.SandboxRules()); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
		})
	}
}
