package tenants_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/test/accuracy/tenants"
)

// run checks that the accounts of the GPU add up to its energy.
func run(t *testing.T, w tenants.World) tenants.Result {
	t.Helper()
	results, err := tenants.Run(w)
	if err != nil {
		t.Fatal(err)
	}
	r := results[0]
	if r.Booked != r.Energy || r.Accounts != r.Booked {
		t.Errorf("%s: the GPU used %d mJ, its book has %d mJ, its accounts hold %d mJ", r.World, r.Energy, r.Booked, r.Accounts)
	}
	return r
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance {
		t.Errorf("%s: %.2f %% of the GPU's energy, want %.2f %%", what, 100*got, 100*want)
	}
}

// TestTruth compares the simulation with values calculated by hand. The floor is 100 W. The first tenant holds two of
// three replicas and works for 100 ms of every second at 300 W. The second tenant works for 200 ms at 600 W. In each
// second, their work takes 30 J and 120 J. The floor takes 100 J: 10 J while the first tenant works, 20 J while the
// second tenant works, and 70 J while neither works.
func TestTruth(t *testing.T) {
	r := run(t, tenants.World{Name: "by hand", Length: 37 * time.Minute, GPUs: []tenants.GPU{{
		Model: "A", Limit: 1000, Floor: 100, Tenants: []tenants.Tenant{
			{Name: "first", Replicas: 2, Watts: 300, Load: tenants.Periodic(100, 1000, 100)},
			{Name: "second", Replicas: 1, Watts: 600, Load: tenants.Periodic(200, 1000, 500)},
		},
	}}})
	near(t, "energy of a second in units of 1 kJ", r.Energy.Joules()/(37*60)/1000, 0.250, 0.001)
	first, second := r.Share("first"), r.Share("second")
	near(t, "first, floor shared", first.FloorShared, (30+100*2./3)/250, 0.001)
	near(t, "second, floor shared", second.FloorShared, (120+100*1./3)/250, 0.001)
	near(t, "first, user pays", first.UserPays, (30+10+70*2./3)/250, 0.001)
	near(t, "second, user pays", second.UserPays, (120+20+70*1./3)/250, 0.001)
}

// TestTurns checks that tenants share the GPU's time if their work arrives at the same time. Work that exceeds the
// GPU's time must wait.
func TestTurns(t *testing.T) {
	r := run(t, tenants.World{Name: "saturated", Length: 10 * time.Minute, GPUs: []tenants.GPU{{
		Model: "A", Limit: 1000, Floor: 100, Tenants: []tenants.Tenant{
			{Name: "first", Replicas: 1, Watts: 400, Load: tenants.Bursts(30, 0.9, 1)},
			{Name: "second", Replicas: 1, Watts: 400, Load: tenants.Bursts(30, 0.9, 2)},
		},
	}}})
	near(t, "power in units of 1 kW", r.Energy.Joules()/600/1000, 0.5, 0.003)
	near(t, "first", r.Share("first").UserPays, 0.5, 0.01)
}

func TestDuty(t *testing.T) {
	for _, l := range tenants.Lights() {
		load := tenants.Evenly(l.Duty)
		if l.Burst > 0 {
			load = tenants.Bursts(l.Burst, l.Duty, 7)
		}
		const hours = 1
		work := 0.0
		for ms := range int64(hours * time.Hour / time.Millisecond) {
			work += load(ms)
		}
		if got := work / float64(hours*time.Hour/time.Millisecond); math.Abs(got/l.Duty-1) > 0.15 {
			t.Errorf("%v: busy for %.2f %% of the time", l, 100*got)
		}
	}
}

// TestBesides compares the true parts with the formula and with the simulation.
func TestBesides(t *testing.T) {
	duties := []float64{0.005, 0.2, 0.2, 0.6, 0.6}
	for i, b := range tenants.Besides() {
		u, w := duties[i], b.Watts
		near(t, b.Name+", formula", (55*(1-u)+110*u+w*u)/(110+w*u), b.Truth, 0.0005)
		r := run(t, b.World(tenants.Driver{}))
		near(t, b.Name+", simulation", r.Share("works").UserPays, b.Truth, 0.003)
	}
}

// TestBesidesAreCharged checks for each driver that the charges differ from the true parts by at most two percent of
// the GPU's energy. Drivers differ in the process that a sample names while nothing runs, and in the time over which
// they average power (1 ms to 1 s). Most of these GPUs are never idle during a reading.
func TestBesidesAreCharged(t *testing.T) {
	for i := range tenants.Besides() {
		for _, v := range tenants.Variants()[:9] {
			b := tenants.Besides()[i] // created for each run, because a load has a state
			w := b.World(v.Driver)
			w.Length = 20 * time.Minute
			r := run(t, w)
			near(t, b.Name+", "+v.Driver.String(), r.Share("works").Charged, b.Truth, 0.02)
		}
	}
}

// TestReadings checks how the charges depend on the process that samples name while nothing runs. The idle power is
// configured, and a tenant works in long bursts.
func TestReadings(t *testing.T) {
	world := func(how tenants.Driver) tenants.World {
		return tenants.World{Name: "bursts", Driver: how, Length: 20 * time.Minute, GPUs: []tenants.GPU{{
			Model: "A", Limit: 800, Floor: 100, Tenants: []tenants.Tenant{
				{Name: "works", Replicas: 1, Watts: 400, Load: tenants.Periodic(5000, 20_000, 5000)},
				{Name: "rests", Replicas: 1},
			},
		}}}
	}
	for _, names := range []tenants.Names{tenants.NamesActive, tenants.NamesLast, tenants.NamesNone} {
		for _, rate := range []float64{0, 6, 1} {
			r := run(t, world(tenants.Driver{Names: names, PerSecond: rate}))
			works := r.Share("works")
			near(t, names.String(), works.Charged, works.UserPays, 0.03)
		}
	}
}

// A tenth of the energy is in no account.
func TestWrong(t *testing.T) {
	r := tenants.Result{Tenants: []tenants.Share{
		{Name: "a", FloorShared: 0.5, UserPays: 0.6, Charged: 0.7},
		{Name: "b", FloorShared: 0.5, UserPays: 0.4, Charged: 0.2},
	}}
	near(t, "wrong, floor shared", r.Wrong(tenants.FloorShared), (0.2+0.3+0.1)/2, 1e-9)
	near(t, "wrong, user pays", r.Wrong(tenants.UserPays), (0.1+0.2+0.1)/2, 1e-9)
	if worst := r.Worst(tenants.UserPays); worst.Name != "b" {
		t.Errorf("the worst account belongs to %s, want b", worst.Name)
	}
}

func TestSameEveryTime(t *testing.T) {
	world := func() tenants.World {
		v := tenants.Variant{Holders: 4, Floor: 110, Driver: tenants.Driver{Names: tenants.NamesLast, Power: time.Second}}
		return tenants.Light{Duty: 0.2, Burst: 20}.World(v, time.Minute)
	}
	if diff := cmp.Diff(run(t, world()), run(t, world())); diff != "" {
		t.Errorf("second run (-first +second):\n%s", diff)
	}
}

// TestEqualWork checks that two holders pay equal amounts for equal work if one holder works evenly and the other in
// bursts. The driver reports momentary power. With an estimated idle power, the charges differ (see docs/accuracy.md).
func TestEqualWork(t *testing.T) {
	for _, floor := range []gpu.Watts{70, 110} {
		for _, burst := range []int{20, 300, 2000} {
			r := run(t, tenants.World{Name: "equal work", Driver: tenants.Driver{Power: time.Millisecond}, Length: time.Hour, Seed: uint64(burst), GPUs: []tenants.GPU{{
				Model: "A", Limit: 700, Floor: floor, Tenants: []tenants.Tenant{
					{Name: "smooth", Replicas: 1, Watts: 300, Load: tenants.Bursts(1, 0.1, 6)},
					{Name: "bursts", Replicas: 1, Watts: 300, Load: tenants.Bursts(burst, 0.1, 5)},
				},
			}}})
			smooth, bursts := r.Share("smooth"), r.Share("bursts")
			t.Logf("floor %v, bursts of %d ms: smooth %.1f kJ, bursts %.1f kJ", floor, burst,
				smooth.Charged*r.Energy.Joules()/1000, bursts.Charged*r.Energy.Joules()/1000)
			near(t, "difference of equal work", smooth.Charged-smooth.UserPays-bursts.Charged+bursts.UserPays, 0, 0.02)
		}
	}
}
