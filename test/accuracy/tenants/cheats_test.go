package tenants_test

import (
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/test/accuracy/tenants"
)

// cheatLimit is the largest part of a GPU's energy that a cheat may move. Cheats against an estimated
// idle power move more: docs/energy.md has the most of each.
const cheatLimit, estimateLimit = 0.02, 0.10

// TestCheats checks that a cheat moves little energy to the victim.
func TestCheats(t *testing.T) {
	held := map[string]bool{"slightly busy later": true, "long bursts, for the power after them": true}
	for _, c := range tenants.Cheats() {
		for _, floor := range []gpu.Watts{70, 110} {
			s := tenants.Scene{Cheat: c, Floor: floor, Replicas: 1, Driver: tenants.Driver{Power: time.Second}}
			r := run(t, s.World(c.Rest+20*time.Minute))
			limit := estimateLimit
			if held[c.Name] {
				limit = cheatLimit
			}
			if moved := r.Moved(); moved > limit {
				t.Errorf("%s, %v: the victim is charged %.1f %% of the GPU's energy beyond its use, want at most %.0f %%", c.Name, s, 100*moved, 100*limit)
			}
		}
	}
}

// TestConfigured checks that a configured idle power holds a tenant who never lets the GPU rest.
func TestConfigured(t *testing.T) {
	for _, c := range tenants.Cheats()[:4] {
		for _, names := range []tenants.Names{tenants.NamesActive, tenants.NamesLast} {
			s := tenants.Scene{Cheat: c, Floor: 70, Replicas: 3, Configured: true, Driver: tenants.Driver{Names: names, Power: time.Second}}
			r := run(t, s.World(c.Rest+20*time.Minute))
			if moved := r.Moved(); moved > cheatLimit {
				t.Errorf("%s, %v: the victim is charged %.1f %% of the GPU's energy beyond its use", c.Name, s, 100*moved)
			}
		}
	}
}
