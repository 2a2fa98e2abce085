package tenants

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A Twin is a pair of worlds in which the driver reports equal values, although the victim's part of the GPU's energy
// differs. A rule that uses only the readings charges the victim the same part in both worlds. In at least one world,
// its error is therefore at least half of the difference between the true parts.
type Twin struct {
	Name         string
	Descriptions [2]string
	driver       Driver
	gpus         [2]GPU
}

// Twins returns the twins for the cheats that move the most energy. The victim holds three of four replicas.
func Twins() []Twin {
	slow := Driver{Power: time.Second}
	idle := Tenant{Name: "victim", Replicas: 3}
	world := func(floor gpu.Watts, watts float64, load Load) GPU {
		mallory := Tenant{Name: "mallory", Replicas: 1, Watts: watts, Load: load}
		return GPU{Model: model, Limit: 700, Floor: floor, Tenants: []Tenant{mallory, idle}}
	}
	powers := func(name string, load func() Load, floors [2]gpu.Watts, watts [2]float64) Twin {
		describe := func(i int) string { return fmt.Sprintf("idle power %v W, mallory's work %v W", floors[i], watts[i]) }
		return Twin{name, [2]string{describe(0), describe(1)}, slow, [2]GPU{world(floors[0], watts[0], load()), world(floors[1], watts[1], load())}}
	}
	// In the second world of warm, the GPU draws additional power after work.
	warm := func(name string, load func() Load, floors [2]gpu.Watts, watts [2]float64, tail gpu.Watts) Twin {
		t := powers(name, load, floors, watts)
		t.gpus[1].Tail = tail
		t.Descriptions[1] += fmt.Sprintf(", %v W more after work", tail)
		return t
	}
	hidden := func(name string, length float64) Twin {
		how := Driver{Names: NamesNone, Power: time.Second}
		one, other := world(70, 590, afterSamples(how, length)), world(70, 0, nil)
		other.Tenants = slices.Clone(other.Tenants)
		other.Tenants[1].Watts, other.Tenants[1].Load = 590, afterSamples(how, length)
		return Twin{name, [2]string{"only mallory works", "only the victim works"}, how, [2]GPU{one, other}}
	}
	evenly := func(duty float64) func() Load { return func() Load { return Evenly(duty) } }
	return append([]Twin{
		warm("mallory works 5 % of the time since boot, in bursts of 20 ms", func() Load { return Bursts(20, 0.05, 11) }, [2]gpu.Watts{70, 59.2}, [2]float64{400, 386}, 15),
		powers("mallory works 3 % of the time since boot, evenly", evenly(0.03), [2]gpu.Watts{70, 81.4}, [2]float64{400, 20}),
		powers("mallory works 0.45 % of the time, which the driver rounds to 0 %", evenly(0.0045), [2]gpu.Watts{70, 72.565}, [2]float64{590, 20}),
		powers("mallory works 0.99 % of the time, which the driver rounds to 1 %", evenly(0.0099), [2]gpu.Watts{70, 75.643}, [2]float64{590, 20}),
		powers("mallory works for 1 ms right before each sample of power", func() Load { return Periodic(1, powerStep, powerStep-1) }, [2]gpu.Watts{70, 98.5}, [2]float64{590, 20}),
		hidden("mallory works for 100 ms right after each sample of activity", 100),
		hidden("mallory works for 1 ms right after each sample of activity", 1),
	}, sharingTwins()...)
}

// sharingTwins returns the twins of GPUs that are not time-sliced. In the second world, mallory and the victim have
// exchanged their work, or a part of the power of their work. watts contains the powers on a whole GPU.
func sharingTwins() []Twin {
	twin := func(name string, how Sharing, loads [2][2]Load, watts [2][2]float64) Twin {
		t := Twin{Name: how.String() + ": " + name, driver: Driver{Power: time.Second}}
		for i := range t.gpus {
			g := &t.gpus[i]
			*g = GPU{Model: model, Limit: 700, Floor: 70, Tenants: []Tenant{
				{Name: "mallory", Replicas: 1, Watts: watts[i][0], Load: loads[i][0]},
				{Name: "victim", Replicas: 3, Watts: watts[i][1], Load: loads[i][1]},
			}}
			if how.isAMD() {
				g.Floor = 140
			}
			how.divide(g)
			t.Descriptions[i] = fmt.Sprintf("mallory's work %.0f W, the victim's work %.0f W", g.Tenants[0].Watts, g.Tenants[1].Watts)
		}
		return t
	}
	fifth, full := Evenly(0.2), Evenly(1)
	both := [2][2]Load{{fifth, fifth}, {fifth, fifth}}
	return append([]Twin{
		twin("mallory's kernels draw much power", MIGWithGPM, both, [2][2]float64{{590, 400}, {400, 542.5}}),
		twin("only one tenant works", MIGWithoutGPM, [2][2]Load{{full, nil}, {nil, full}}, [2][2]float64{{590, 0}, {0, 442.5}}),
		twin("only one tenant works", MPSNamesServer, [2][2]Load{{fifth, nil}, {nil, fifth}}, [2][2]float64{{400, 0}, {0, 400}}),
		twin("mallory's kernels draw much power", MPSNamesClients, both, [2][2]float64{{590, 200}, {400, 390}}),
	}, amdTwins(twin)...)
}

func amdTwins(twin func(name string, how Sharing, loads [2][2]Load, watts [2][2]float64) Twin) []Twin {
	fifth, full := Evenly(0.2), Evenly(1)
	both := [2][2]Load{{fifth, fifth}, {fifth, fifth}}
	slightly := twin("mallory works 3 % of the time since boot, evenly", AMDWithSums, [2][2]Load{{Evenly(0.03)}, {Evenly(0.03)}}, [2][2]float64{{400, 0}, {20, 0}})
	for i, floor := range []gpu.Watts{140, 151.4} {
		slightly.gpus[i].Floor = floor
		slightly.Descriptions[i] = fmt.Sprintf("idle power %v W, mallory's work %v W", floor, slightly.gpus[i].Tenants[0].Watts)
	}
	few := twin("mallory works 20 % of the time, on 8 of 304 compute units", AMDWithSums, both, [2][2]float64{{590, 200}, {400, 390}})
	for i := range few.gpus {
		few.gpus[i].Tenants[0].Units = 8
	}
	return []Twin{
		slightly,
		twin("mallory's kernels draw much power", AMDWithSums, both, [2][2]float64{{590, 200}, {400, 390}}),
		few,
		twin("mallory's kernels draw much power", AMDPartitionsWithSums, both, [2][2]float64{{590, 400}, {400, 590}}),
		twin("only one tenant works", AMDPartitionsWithoutSums, [2][2]Load{{full, nil}, {nil, full}}, [2][2]float64{{590, 0}, {0, 590}}),
	}
}

// The node runs for this time before the exporter starts. Otherwise, the exporter would read the idle power before the
// first work.
const before = 2 * time.Second

func (t Twin) world(i int, length time.Duration) World {
	g := t.gpus[i]
	return World{Name: t.Name + ", " + t.Descriptions[i], Driver: t.driver, Before: before, Length: length, Seed: 42, GPUs: []GPU{g}}
}

// Victims returns the victim's part in each world. It can be called only once, because the loads have a state.
func (t Twin) Victims(length time.Duration) (shares [2]Share, err error) {
	for i := range shares {
		results, err := Run(t.world(i, length))
		if err != nil {
			return shares, err
		}
		shares[i] = results[0].Share("victim")
	}
	return shares, nil
}

// A Reading contains all values that the driver reports for a GPU in one second. It always contains the energy in
// joules. Without MIG, it also contains the samples of activity (each with a time, a process and a busy percentage) and
// the samples of power in watts. With GPM, it contains the milliseconds in which each MIG instance worked.
//
// On an AMD GPU, it also contains the milliseconds in which the GPU worked. Without partitions, it contains the compute
// units that each process occupies. With partitions, a kernel that reports no sums of activity reads the occupied
// compute units from the first die of the GPU.
type Reading struct {
	Samples   []string
	Busy      float64
	Units     []int
	Powers    []float64
	Instances []float64
	Energy    float64
}

// Readings returns the readings in each world.
func (t Twin) Readings(seconds int) (all [2][]Reading) {
	for i := range all {
		b := newBoard(&t.gpus[i], t.driver, 42)
		for range before.Milliseconds() + phase {
			b.step()
		}
		b.drain()
		for range seconds {
			before, busy := b.counter, b.busySum
			b.schedule()
			for range tick.Milliseconds() {
				b.step()
			}
			taken, powers := b.drain()
			r := Reading{Energy: (b.counter - before) / 1000}
			if b.Slices != nil || b.AMD != NoAMD {
				taken, powers = nil, nil
			}
			if b.AMD != NoAMD {
				r.Busy = b.busySum - busy
			}
			r.Units = b.occupancy.units
			for i := range b.slots {
				if b.GPM {
					r.Instances = append(r.Instances, b.slots[i].counted)
				}
			}
			for _, s := range taken {
				r.Samples = append(r.Samples, fmt.Sprintf("%d ms: process %d, %v %%", s.at, s.pid, s.percent))
			}
			for _, p := range powers {
				r.Powers = append(r.Powers, p.watts)
			}
			all[i] = append(all[i], r)
		}
	}
	return all
}
