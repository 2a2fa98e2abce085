package tenants

import (
	"fmt"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A Light describes a light load on a shared GPU.
type Light struct {
	// Duty is the busy share of the GPU. Burst is the length of a burst in milliseconds. 0 means an even load.
	Duty  float64
	Burst int
}

func (l Light) String() string {
	if l.Burst == 0 {
		return fmt.Sprintf("busy %g %% of the time, evenly", 100*l.Duty)
	}
	return fmt.Sprintf("busy %g %% of the time, in bursts of %d ms", 100*l.Duty, l.Burst)
}

// Lights returns all simulated light loads.
func Lights() (all []Light) {
	for _, duty := range []float64{0.005, 0.01, 0.05, 0.2, 0.5} {
		for _, burst := range []int{1, 20, 300, 0} {
			all = append(all, Light{duty, burst})
		}
	}
	return all
}

// A Variant describes a GPU under a light load: the number of holders, the idle power, and the driver's sampling. Half
// of the holders are idle.
type Variant struct {
	Holders int
	Floor   gpu.Watts
	Driver
}

func (v Variant) String() string {
	return fmt.Sprintf("%d holders; idle power %v W; %v", v.Holders, v.Floor, v.Driver)
}

// Variants returns the variants that are simulated for each load. The power limit of the GPU is always 700 W.
func Variants() (all []Variant) {
	for _, holders := range []int{2, 4, 10} {
		for _, floor := range []gpu.Watts{70, 110} {
			for _, names := range []Names{NamesActive, NamesLast, NamesNone} {
				for _, power := range []time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second} {
					all = append(all, Variant{holders, floor, Driver{Names: names, Power: power}})
				}
			}
		}
	}
	return all
}

// World returns the simulation of a load on a variant. The first half of the holders works. Each of them works more
// than the previous holder, and at another power. The average power is 400 W.
func (l Light) World(v Variant, length time.Duration) World {
	const watts, spread = 400, 80
	workers := v.Holders / 2
	g := GPU{Model: "NVIDIA H100 80GB HBM3", Limit: 700, Floor: v.Floor}
	for i := range workers {
		part := float64(2*(i+1)) / float64(workers*(workers+1))
		load := Evenly(l.Duty * part)
		if l.Burst > 0 {
			load = Bursts(l.Burst, l.Duty*part, uint64(i))
		}
		power := float64(watts)
		if workers > 1 {
			power += spread * (2*float64(i)/float64(workers-1) - 1)
		}
		g.Tenants = append(g.Tenants, Tenant{Name: fmt.Sprintf("worker-%d", i), Replicas: 1, Watts: power, Load: load})
	}
	for i := range v.Holders - workers {
		g.Tenants = append(g.Tenants, Tenant{Name: fmt.Sprintf("idle-%d", i), Replicas: 1})
	}
	return World{Name: l.String() + ", " + v.String(), GPUs: []GPU{g}, Driver: v.Driver, Length: length, Seed: 40}
}

// A Beside describes the load of one holder next to an idle holder. The GPU has an idle power of 110 W and a limit of
// 700 W. Truth is the working holder's part of the energy if the user pays the floor. It was calculated by hand.
type Beside struct {
	Name string
	// Watts is added to the idle power.
	Watts float64
	Load  Load
	Truth float64
}

// Besides returns all loads next to an idle holder. If u is the busy share and w is the power of the work, the true
// part is (55 W × (1 − u) + 110 W × u + u × w) / (110 W + u × w).
func Besides() []Beside {
	return []Beside{
		// (55 × 0.995 + 110 × 0.005 + 500 × 0.005) / 112.5 = (54.725 + 0.55 + 2.5) / 112.5
		{"1 ms of work every 200 ms", 500, Bursts(1, 0.005, 1), 0.514},
		// (55 × 0.8 + 110 × 0.2 + 400 × 0.2) / 190 = (44 + 22 + 80) / 190
		{"busy 20 % of the time, evenly, 1 ms at a time", 400, Bursts(1, 0.2, 2), 0.768},
		{"busy 20 % of the time, evenly, in kernels of microseconds", 400, Evenly(0.2), 0.768},
		// (55 × 0.4 + 110 × 0.6 + 500 × 0.6) / 410 = (22 + 66 + 300) / 410
		{"busy 60 % of the time, evenly, 1 ms at a time", 500, Bursts(1, 0.6, 3), 0.946},
		{"busy 60 % of the time, evenly, in kernels of microseconds", 500, Evenly(0.6), 0.946},
	}
}

// World returns a simulation of the load for an hour.
func (b Beside) World(how Driver) World {
	return World{Name: b.Name, Driver: how, Length: time.Hour, Seed: 41, GPUs: []GPU{{
		Model: "NVIDIA H100 80GB HBM3", Limit: 700, Floor: 110, Tenants: []Tenant{
			{Name: "works", Replicas: 1, Watts: b.Watts, Load: b.Load},
			{Name: "rests", Replicas: 1},
		},
	}}}
}
