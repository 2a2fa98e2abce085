package tenants_test

import (
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/test/accuracy/tenants"
	"github.com/gpuledger/gpuledger/test/draws"
)

// A cheat on a GPU that is not time-sliced may move at most sharingLimit of the GPU's energy. For kernels that draw
// much power, the limit is powerLimit if the idle power is estimated, and configuredPowerLimit if it is configured.
const sharingLimit, powerLimit, configuredPowerLimit = 0.02, 0.08, 0.06

const muchPower = "mallory's kernels draw much power"

// amdLimits contains higher limits for cheats on a whole AMD GPU, because the exporter cannot derive power from the
// occupied compute units.
var amdLimits = map[string]float64{
	"mallory works 5 % of the time since boot, in bursts of 20 ms":      0.04,
	"mallory works 3 % of the time since boot, evenly":                  0.04,
	"mallory works 3 % of the time since boot, 1 ms at a time":          0.03,
	"mallory works 0.99 % of the time, which the driver rounds to 1 %":  0.03,
	"mallory works for 100 ms right after each reading":                 0.10,
	"mallory works 20 % of the time, on 8 of 304 compute units":         0.12,
	"mallory works 20 % of the time at 590 W, on all 304 compute units": 0.20,
	"one wave of mallory waits on one compute unit and does no work":    0.10,
	muchPower: 0.14,
}

// TestAMDCheats checks cheats on whole AMD GPUs. If the exporter read the occupied compute units at each tick, and not
// at a random moment, work between the ticks would move more than 70 %. If it divided the energy of seconds without
// known activity by replicas, bursts would move 12 %.
func TestAMDCheats(t *testing.T) {
	for _, c := range tenants.SharingCheats(tenants.AMDWithSums) {
		limit := amdLimits[c.Name]
		if limit == 0 {
			limit = sharingLimit
		}
		for _, s := range tenants.SharingScenes(c, tenants.AMDWithSums)[:2] {
			s.Configured = true
			if part := moved(t, s); part > limit {
				t.Errorf("%s, %v: %.1f %% of the GPU's energy are moved, want at most %.0f %%", c.Name, s, 100*part, 100*limit)
			}
		}
	}
}

// TestSharingCheats checks that cheats move at most 2 % on MIG instances, on an MPS server that samples name, and on
// partitions of AMD GPUs. Kernels with much power may move more if the activity of instances is known, because activity
// does not show power. With few draws, the idle power is configured only for every second cheat.
func TestSharingCheats(t *testing.T) {
	for _, how := range []tenants.Sharing{tenants.MIGWithGPM, tenants.MIGWithoutGPM, tenants.MPSNamesServer, tenants.AMDPartitionsWithSums, tenants.AMDPartitionsWithoutSums} {
		for i, c := range tenants.SharingCheats(how) {
			for k := range draws.Of(1, 2) {
				configured := (i+k)%2 == 1
				s := tenants.SharingScenes(c, how)[0]
				limit := sharingLimit
				if c.Name == muchPower {
					s = tenants.SharingScenes(c, how)[1]
				}
				if c.Name == muchPower && (how == tenants.MIGWithGPM || how == tenants.AMDPartitionsWithSums) {
					if limit = powerLimit; configured {
						limit = configuredPowerLimit
					}
				}
				s.Configured = configured
				if part := moved(t, s); part > limit {
					t.Errorf("%v, %s, %v, configured %v: %.1f %% of the GPU's energy are moved", how, c.Name, s, configured, 100*part)
				}
			}
		}
	}
}

// TestSharedTruth compares mallory's true parts with values that were calculated by hand. The idle power is 70 W.
func TestSharedTruth(t *testing.T) {
	mallory := tenants.Tenant{Name: "mallory", Replicas: 1, Watts: 300, Load: tenants.Evenly(0.5)}
	victim := tenants.Tenant{Name: "victim", Replicas: 3, Instance: 1, Watts: 100, Load: tenants.Evenly(0.2)}
	near := func(name string, g tenants.GPU, floorShared, userPays float64) {
		g.Model, g.Limit, g.Floor = "A", 700, 70
		r := run(t, tenants.World{Name: name, Length: 37 * time.Minute, GPUs: []tenants.GPU{g}})
		// The board draws 70 + 150 + 20 = 240 W.
		near(t, name+", floor shared", r.Share("mallory").FloorShared, floorShared/240, 0.001)
		near(t, name+", user pays", r.Share("mallory").UserPays, userPays/240, 0.001)
	}
	near("MIG", tenants.GPU{Slices: []int{3, 4}, GPM: true, Tenants: []tenants.Tenant{mallory, victim}}, 30+150, 30+150)
	victim.Instance = 0
	// At least one of them works 1 − 0.5 × 0.8 = 60 % of the time. Mallory does 5 of 7 parts of the work.
	near("MPS", tenants.GPU{MPS: tenants.MPSClients, Tenants: []tenants.Tenant{mallory, victim}}, 70./4+150, 42*5./7+28./4+150)
	near("AMD", tenants.GPU{AMD: tenants.AMDSums, Tenants: []tenants.Tenant{mallory, victim}}, 70./4+150, 42*5./7+28./4+150)
}

// TestSharedCharges compares the charges of busy MIG instances and clients with the rule in docs/energy.md. The
// configured idle power is 70 W. Both tenants draw equal power per slice while they work, so activity is the right
// measure.
func TestSharedCharges(t *testing.T) {
	world := func(how tenants.MPS, slices []int, gpm bool, instance int, watts [2]float64) tenants.World {
		return tenants.World{Name: "busy", Length: 20 * time.Minute, GPUs: []tenants.GPU{{
			Model: "A", Limit: 700, Floor: 70, Configured: 70, Slices: slices, GPM: gpm, MPS: how, Tenants: []tenants.Tenant{
				{Name: "mallory", Replicas: 1, Watts: watts[0], Load: tenants.Evenly(0.5)},
				{Name: "victim", Replicas: 3, Instance: instance, Watts: watts[1], Load: tenants.Evenly(0.2)},
			},
		}}}
	}
	amd := func(w tenants.World) tenants.World {
		w.GPUs[0].AMD = tenants.AMDSums
		return w
	}
	charged := func(w tenants.World) float64 {
		r := run(t, w)
		return r.Share("mallory").Charged
	}
	near(t, "MIG with GPM", charged(world(0, []int{3, 4}, true, 1, [2]float64{210, 280})), (30+105.)/(70+105+56), 0.005)
	near(t, "MIG without GPM", charged(world(0, []int{3, 4}, false, 1, [2]float64{210, 280})), 3./7, 0.001)
	near(t, "AMD partitions", charged(amd(world(0, []int{4, 4}, true, 1, [2]float64{200, 200}))), (35+100.)/(70+100+40), 0.005)
	near(t, "AMD partitions without sums", charged(amd(world(0, []int{4, 4}, false, 1, [2]float64{200, 200}))), 1./2, 0.001)
	// At least one of them works 60 % of the time, so the busy part is 0.6 × 70 + 0.5 × 100 + 0.2 × 100 W. Both work in
	// 10 % of the moments. So only mallory is seen in 40 % of the moments, and only the victim is seen in 10 %. Mallory
	// gets 9 of 12 parts of the busy part.
	near(t, "AMD", charged(amd(world(0, nil, false, 0, [2]float64{100, 100}))), (7+112*9/12.)/(70+70), 0.01)
	near(t, "MPS server", charged(world(tenants.MPSServer, nil, false, 0, [2]float64{300, 300})), 1./4, 0.001)
}

// TestHonestInstances checks the mean part of the energy in wrong accounts for pairs of loads on two MIG instances with
// GPM. Most of these GPUs are never idle during a reading. If the ledger used an eighth of the power limit as idle
// power, the mean would be 7.3 %.
func TestHonestInstances(t *testing.T) {
	var sum, worst, n float64
	for _, floor := range []gpu.Watts{55, 90, 140} {
		for i := range 36 {
			for _, watts := range [][2]float64{{200, 400}, {400, 250}} {
				loads := [2]tenants.Load{honestLoads(i)[i/6], honestLoads(100 + i)[i%6]}
				wrong := wrongOnInstances(t, floor, loads, watts)
				sum, worst, n = sum+wrong, max(worst, wrong), n+1
			}
		}
	}
	t.Logf("%.0f pairs of loads: %.2f %% in wrong accounts, at most %.1f %%", n, 100*sum/n, 100*worst)
	if sum/n > 0.069 {
		t.Errorf("%.1f %% of the energy is in wrong accounts, want less than 6.9 %%", 100*sum/n)
	}
}

func honestLoads(seed int) []tenants.Load {
	s := uint64(seed)
	return []tenants.Load{nil, tenants.Evenly(0.02), tenants.Bursts(20, 0.2, s), tenants.Evenly(0.5), tenants.Bursts(300, 0.8, s), tenants.Evenly(1)}
}

// wrongOnInstances returns the part of the energy in wrong accounts after five minutes. watts contains the power of
// each load on a whole GPU.
func wrongOnInstances(t *testing.T, floor gpu.Watts, loads [2]tenants.Load, watts [2]float64) float64 {
	t.Helper()
	slices := []int{3, 4}
	g := tenants.GPU{Model: "A", Limit: 700, Floor: floor, Slices: slices, GPM: true}
	for i, name := range []string{"one", "other"} {
		part := float64(slices[i]) / float64(slices[0]+slices[1])
		g.Tenants = append(g.Tenants, tenants.Tenant{Name: name, Replicas: 1, Instance: i, Watts: watts[i] * part, Load: loads[i]})
	}
	r := run(t, tenants.World{Name: "honest", Length: 5 * time.Minute, Seed: 1, GPUs: []tenants.GPU{g}})
	return r.Wrong(tenants.UserPays)
}
