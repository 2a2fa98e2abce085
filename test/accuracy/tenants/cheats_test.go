package tenants_test

import (
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/test/accuracy/tenants"
	"github.com/gpuledger/gpuledger/test/draws"
)

// A cheat may move at most cheatLimit of a GPU's energy. If the idle power is estimated, the limit is estimateLimit.
// For bursts during which no sample names a process, the limit is burstLimit, even if the idle power is known.
// docs/accuracy.md lists the largest measured parts.
const cheatLimit, burstLimit, estimateLimit = 0.02, 0.055, 0.10

// In the first restless cheats of the list, mallory never lets the GPU rest.
const restless = 3

func knownLimit(s tenants.Scene) float64 {
	if s.Names == tenants.NamesNone {
		return burstLimit
	}
	return cheatLimit
}

func moved(t *testing.T, s tenants.Scene) float64 {
	t.Helper()
	e, err := s.Effect(20 * time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return e.Moved
}

func TestCheats(t *testing.T) {
	held := map[string]bool{"mallory starts an hour after boot, then works 5 % of the time in bursts of 20 ms": true, "mallory works for 1 s in every 4 s, and the GPU draws extra power after work": true}
	for _, c := range tenants.Cheats() {
		for _, floor := range []gpu.Watts{70, 110} {
			s := tenants.Scene{Cheat: c, Floor: floor, Replicas: 1, Driver: tenants.Driver{Power: time.Second}}
			limit := estimateLimit
			if held[c.Name] {
				limit = cheatLimit
			}
			if part := moved(t, s); part > limit {
				t.Errorf("%s, %v: %.1f %% of the GPU's energy is moved, want at most %.0f %%", c.Name, s, 100*part, 100*limit)
			}
		}
	}
}

// TestConfigured checks that a configured idle power protects against a tenant who never lets the GPU rest. The
// driver's header does not define which process a sample names while nothing runs, so the test covers each possibility.
func TestConfigured(t *testing.T) {
	for _, c := range tenants.Cheats()[:restless] {
		for _, names := range []tenants.Names{tenants.NamesActive, tenants.NamesLast, tenants.NamesNone} {
			s := tenants.Scene{Cheat: c, Floor: 70, Replicas: 3, Configured: true, Driver: tenants.Driver{Names: names, Power: time.Second}}
			if part := moved(t, s); part > knownLimit(s) {
				t.Errorf("%s, %v: %.1f %% of the GPU's energy is moved", c.Name, s, 100*part)
			}
		}
	}
}

// TestPeersHold checks a node with eight GPUs, seven of which are idle at times. A tenant who never lets her GPU rest
// must move only little energy. Her work on a second GPU must have no effect. With few draws, the test covers only one
// of the processes that samples may name while nothing runs.
func TestPeersHold(t *testing.T) {
	second := func() tenants.Load { return tenants.Evenly(0.0099) }
	all := []tenants.Names{tenants.NamesNone, tenants.NamesActive, tenants.NamesLast}
	for i, c := range tenants.Cheats()[:restless] {
		for k := range draws.Of(1, len(all)) {
			names := all[(i+k)%len(all)]
			s := tenants.Scene{Cheat: c, Floor: 70, Replicas: 3, Peers: 7, Driver: tenants.Driver{Names: names, Power: time.Second}}
			alone := moved(t, s)
			if alone > knownLimit(s) {
				t.Errorf("%s, %v: %.1f %% of the GPU's energy is moved beside measured peers", c.Name, s, 100*alone)
			}
			s.Peer, s.PeerWatts, s.Peers = second, 590, 6
			if both := moved(t, s); both > alone+0.002 {
				t.Errorf("%s, %v: %.1f %% of the GPU's energy is moved with work on a second GPU, %.1f %% without", c.Name, s, 100*both, 100*alone)
			}
		}
	}
}

// TestHonestWork checks that the work uses the same amount of energy with and without the trick. The difference of the
// charges is therefore the effect of the trick.
func TestHonestWork(t *testing.T) {
	s := tenants.Scene{Cheat: tenants.Cheats()[1], Floor: 70, Replicas: 3, Configured: true}
	trick, honest := run(t, s.World(20*time.Minute)), run(t, s.Honest().World(20*time.Minute))
	// Her work takes 3 % of the time at 400 W, and the floor is 70 W. Her part of the 82 W consists of 12 W for
	// work, 2.1 W of the floor, and 1/4 of 67.9 W.
	want := (12 + 2.1 + 67.9/4) / 82
	near(t, "trick", trick.Share("mallory").UserPays, want, 0.003)
	near(t, "honest", honest.Share("mallory").UserPays, want, 0.01)
}
