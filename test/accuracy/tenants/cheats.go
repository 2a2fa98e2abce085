package tenants

import (
	"fmt"
	"math"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A Cheat is a trick of the tenant mallory, who shares a GPU with the tenant victim. The trick changes the idle power
// that the ledger learns for the GPU, or reduces the charge for mallory's work.
type Cheat struct {
	Name string
	// Load returns mallory's work, which may depend on the driver's sampling. Watts is the power of this work.
	Load     func(Driver) Load
	Watts    float64
	Lifetime time.Duration
	// Ordinary is set if the trick is to work at a high power. It is the power of the same work without the trick.
	// Without the trick, the work takes longer.
	Ordinary float64
	// Peer returns mallory's work on another GPU of the same model, which she holds alone. It is nil if she does not
	// work there. PeerWatts is the power of this work.
	Peer      func() Load
	PeerWatts float64
	// Tail is the additional power that the GPU draws right after work.
	Tail gpu.Watts
	// Rest is the time at the start in which mallory does not work.
	Rest time.Duration
	// Units is the number of compute units that mallory's waves occupy on an AMD GPU. 0 means half of the units.
	Units int
}

// A Scene is a GPU on which mallory cheats.
type Scene struct {
	Cheat
	Driver
	Sharing
	AMD
	Floor gpu.Watts
	// Replicas is the number of replicas that the victim holds. Mallory holds one replica. Busy is set if the victim
	// works a fifth of the time.
	Replicas   int
	Busy       bool
	Configured bool
	// Peers is the number of other GPUs of the model. Each of them has a job that leaves the GPU idle half of the time.
	Peers int
}

func (s Scene) String() string {
	victim := "idle"
	if s.Busy {
		victim = "busy"
	}
	switch {
	case s.isDivided() && s.isAMD():
		return fmt.Sprintf("the victim is %s and holds the other partition; idle power %v W", victim, s.Floor)
	case s.isDivided():
		return fmt.Sprintf("the victim is %s and holds the instance 4g; idle power %v W", victim, s.Floor)
	case s.isAMD():
		return fmt.Sprintf("the victim is %s and holds %d of %d replicas; idle power %v W; %v", victim, s.Replicas, s.Replicas+1, s.Floor, s.AMD)
	}
	return fmt.Sprintf("the victim is %s and holds %d of %d replicas; idle power %v W; %v", victim, s.Replicas, s.Replicas+1, s.Floor, s.Driver)
}

// Scenes returns the GPUs on which the cheat is simulated.
func Scenes(c Cheat) (all []Scene) {
	for _, floor := range []gpu.Watts{70, 110} {
		for _, names := range []Names{NamesActive, NamesLast, NamesNone} {
			for _, power := range []time.Duration{time.Millisecond, time.Second} {
				how := Driver{Names: names, Power: power}
				all = append(all,
					Scene{Cheat: c, Driver: how, Floor: floor, Replicas: 3},
					Scene{Cheat: c, Driver: how, Floor: floor, Replicas: 1, Busy: true})
			}
		}
	}
	return all
}

// The power limit of this model is 700 W.
const model = "NVIDIA H100 80GB HBM3"

func always(l func() Load) func(Driver) Load { return func(Driver) Load { return l() } }

// Cheats returns all cheats on a GPU that is time-sliced.
func Cheats() []Cheat {
	slightly := always(func() Load { return Bursts(20, 0.05, 11) })
	return []Cheat{
		{Name: "mallory works 5 % of the time since boot, in bursts of 20 ms", Watts: 400, Load: slightly},
		{Name: "mallory works 3 % of the time since boot, evenly", Watts: 400, Load: always(func() Load { return Evenly(0.03) })},
		{Name: "mallory works 3 % of the time since boot, 1 ms at a time", Watts: 400, Load: always(func() Load { return Bursts(1, 0.03, 12) })},
		{Name: "mallory starts an hour after boot, then works 5 % of the time in bursts of 20 ms", Watts: 400, Load: slightly, Rest: time.Hour},
		{Name: "mallory works 0.45 % of the time, which the driver rounds to 0 %", Watts: 590, Load: always(func() Load { return Evenly(0.0045) })},
		{Name: "mallory works 0.99 % of the time, which the driver rounds to 1 %", Watts: 590, Load: always(func() Load { return Evenly(0.0099) })},
		{Name: "mallory works for 100 ms right after each sample of activity", Watts: 400, Load: func(how Driver) Load { return afterSamples(how, 100) }},
		{Name: "mallory works for 1 ms right after each sample of activity", Watts: 590, Load: func(how Driver) Load { return afterSamples(how, 1) }},
		{Name: "mallory works for 1 ms right before each sample of power", Watts: 590, Load: always(func() Load { return Periodic(1, powerStep, powerStep-1) })},
		{Name: "mallory works 0.9 % of the time for nine minutes, then pauses for one minute", Watts: 590, Load: always(func() Load {
			return Within(Evenly(0.009), 0, 9*60_000, 10*60_000)
		})},
		{Name: "mallory works for 1 s in every 4 s, and the GPU draws extra power after work", Watts: 500, Load: always(func() Load { return Periodic(1000, 4000, 300) }), Tail: 20},
		{Name: "mallory works in bursts of 20 ms, and 0.99 % of the time on a second GPU", Watts: 400, Load: slightly, Peer: func() Load { return Evenly(0.0099) }, PeerWatts: 590},
		{Name: "mallory works in bursts of 20 ms, and 30 % of the time on a second GPU", Watts: 400, Load: slightly, Peer: func() Load { return Bursts(20, 0.3, 13) }, PeerWatts: 400},
		{Name: "mallory works in bursts of 20 ms, with a new process every 300 ms", Watts: 400, Load: slightly, Lifetime: 300 * time.Millisecond},
	}
}

func afterSamples(how Driver, length float64) Load {
	r := newRing(how)
	return func(ms int64) float64 {
		if ms < r.due {
			return 0
		}
		r.advance()
		return math.Min(length, 0.8*1000/r.how.PerSecond)
	}
}

// Honest returns the scene in which mallory does the same work without a trick. She does the work of each minute in one
// piece, with a single process, and does not work on other GPUs.
func (s Scene) Honest() Scene {
	load, period := s.Load, int64(60_000)
	if s.isAMD() {
		period += 370 // otherwise the work would begin at the same time before each reading
	}
	s.Load = func(how Driver) Load { return Gathered(load(how), period) }
	if more := s.Watts / s.Ordinary; s.Ordinary > 0 {
		s.Load = func(how Driver) Load { return Gathered(longer(load(how), more), period) }
		s.Watts = s.Ordinary
	}
	s.Lifetime, s.Peer, s.Units = 0, nil, 0
	return s
}

// World returns the simulation of the scene.
func (s Scene) World(length time.Duration) World {
	mallory := Tenant{Name: "mallory", Replicas: 1, Watts: s.Watts, Lifetime: s.Lifetime, Units: s.Units, Load: s.Load(s.Driver)}
	if load, from := mallory.Load, s.Rest.Milliseconds(); from > 0 {
		mallory.Load = func(ms int64) float64 {
			if work := load(ms); ms >= from {
				return work
			}
			return 0
		}
	}
	victim := Tenant{Name: "victim", Replicas: s.Replicas, Watts: s.victimWatts()}
	if s.Busy {
		victim.Load = Bursts(20, 0.2, 14)
	}
	w := World{Name: s.Name + ", " + s.String(), Driver: s.Driver, Length: length, Seed: 42}
	w.GPUs = []GPU{{Model: model, Limit: 700, Floor: s.Floor, Tail: s.Tail, AMD: s.AMD, Tenants: []Tenant{mallory, victim}}}
	s.divide(&w.GPUs[0])
	if s.Configured {
		w.GPUs[0].Configured = s.Floor
	}
	if s.Peer != nil {
		mallory := Tenant{Name: "mallory", Replicas: 1, Watts: s.PeerWatts, Load: s.Peer()}
		w.GPUs = append(w.GPUs, GPU{Model: model, Limit: 700, Floor: s.Floor, Tenants: []Tenant{mallory}})
	}
	for range s.Peers {
		job := Tenant{Name: "job", Replicas: 1, Watts: 400, Load: Periodic(30_000, 60_000, 0)}
		w.GPUs = append(w.GPUs, GPU{Model: model, Limit: 700, Floor: s.Floor, Tenants: []Tenant{job}})
	}
	return w
}

// Evaded returns the part of the GPU's energy that mallory used but was not charged for, if the user pays the floor
// (see the package documentation).
func (r *Result) Evaded() float64 {
	m := r.Share("mallory")
	return m.UserPays - m.Charged
}

// An Effect describes the result of a cheat, in parts of the GPU's energy. Error is the part that mallory used but was
// not charged for. Moved is Error minus the error of the same work without the trick.
type Effect struct{ Moved, Error float64 }

// Effect runs the scene with and without its trick.
func (s Scene) Effect(length time.Duration) (Effect, error) {
	var evaded [2]float64
	for i, s := range []Scene{s, s.Honest()} {
		results, err := Run(s.World(s.Rest + length))
		if err != nil {
			return Effect{}, err
		}
		evaded[i] = results[0].Evaded()
	}
	return Effect{Moved: evaded[0] - evaded[1], Error: evaded[0]}, nil
}
