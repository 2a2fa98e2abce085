package blindness

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// A Schedule describes a node, its pods and jobs, and the outages in which the exporter cannot read a source. All times
// are measured from the start.
type Schedule struct {
	Seed   uint64
	Length time.Duration
	GPUs   []Board
	Owners []Owner
	Spells []Spell
}

// A Board describes a GPU and its constant power.
type Board struct {
	UUID  string
	Floor int // in W
	// Replicas is 0 if the device plugin does not share the GPU.
	Replicas int
	// Jobs is set if Slurm, and not the kubelet, allocates the GPU.
	Jobs bool
}

// An Owner is a pod or a job that uses one GPU for a span.
type Owner struct {
	Name    string
	Job     bool
	GPU     int
	Replica int
	// Holds is unset for a pod that works on a GPU without an allocation.
	Holds bool
	// Context is set if the owner has a process on the GPU. The process works for Percent of the time, and draws Watts
	// while it works.
	Context        bool
	Percent, Watts int
	From, Until    time.Duration
}

func (o *Owner) life() span { return span{o.From, o.Until} }

func (o *Owner) works() bool { return o.Context && o.Percent > 0 }

// step is the time step of the simulated node. All other times are multiples of it.
const step = 100 * time.Millisecond

// calm is the time at the end of a schedule without outages. It is long enough for a poll of the kubelet and a retry,
// so that the last page contains everything that the exporter could read.
const calm = 25 * time.Second

// Draw returns a random schedule. The seed and the length determine the schedule.
func Draw(seed uint64, length time.Duration) Schedule {
	random := rand.New(rand.NewPCG(seed, 39))
	s := Schedule{Seed: seed, Length: length}
	for g := range 1 + random.IntN(3) {
		s.addBoard(random, g)
	}
	s.addSpells(random)
	return s
}

func (s *Schedule) addBoard(random *rand.Rand, g int) {
	b := Board{UUID: fmt.Sprintf("GPU-5eed0000-0000-4000-a000-%012d", g), Floor: 60 + random.IntN(30)}
	slots, budget := 1, 70
	switch random.IntN(3) {
	case 1:
		b.Replicas = 2 + random.IntN(3)
		slots, budget = b.Replicas, 90/b.Replicas
	case 2:
		b.Jobs = true
		slots = 1 + random.IntN(3)
		budget = 90 / slots
	}
	s.GPUs = append(s.GPUs, b)
	for slot := range slots {
		s.addOwners(random, Owner{GPU: g, Replica: slot, Job: b.Jobs, Holds: true}, budget)
	}
	if slots == 1 && !b.Jobs && random.IntN(3) == 0 {
		s.addOwners(random, Owner{GPU: g}, 25)
	}
}

// addOwners adds up to four owners, one after another.
func (s *Schedule) addOwners(random *rand.Rand, o Owner, budget int) {
	at := time.Duration(0)
	if !o.Holds || random.IntN(2) == 0 {
		at = drawn(random, time.Second, s.Length/2)
	}
	for n := 0; n < 4 && at < s.Length; n++ {
		o.From, o.Until = at, at+drawn(random, 3*time.Second, s.Length)
		o.Name = fmt.Sprintf("o%d", len(s.Owners))
		if o.Job {
			o.Name = fmt.Sprint(301 + len(s.Owners))
		}
		o.Context, o.Percent, o.Watts = true, 5+random.IntN(budget-4), 200+random.IntN(400)
		if o.Holds {
			switch random.IntN(5) {
			case 0:
				o.Context, o.Percent = false, 0
			case 1:
				o.Percent = 0
			}
		}
		s.Owners = append(s.Owners, o)
		at = o.Until + drawn(random, step, 20*time.Second)
	}
}

// addSpells adds one outage for every 25 seconds of the schedule, but at least one.
func (s *Schedule) addSpells(random *rand.Rand) {
	until := s.Length - calm
	for range 1 + int(until/(25*time.Second)) {
		spell := Spell{Kind: random.IntN(len(Kinds)), GPU: random.IntN(len(s.GPUs))}
		spell.From = drawn(random, 8*time.Second, until-time.Second)
		spell.Until = min(spell.From+drawn(random, time.Second, 3*time.Minute), until)
		if s.fits(spell) {
			s.Spells = append(s.Spells, spell)
		}
	}
}

// fits reports whether an outage applies to the node and does not overlap another outage of its group.
func (s *Schedule) fits(spell Spell) bool {
	kind := Kinds[spell.Kind]
	if kind.group == groupKubelet && !s.has(false) || kind.group == groupProlog && !s.has(true) {
		return false
	}
	for _, other := range s.Spells {
		apart := !spell.span().wider(3*time.Second, 3*time.Second).meets(other.span())
		if !apart && Kinds[other.Kind].group == kind.group {
			return false
		}
	}
	return true
}

// has reports whether the schedule contains a job or, if job is unset, a pod.
func (s *Schedule) has(job bool) bool {
	for _, o := range s.Owners {
		if o.Job == job {
			return true
		}
	}
	return false
}

// drawn returns a random multiple of step. Short times are as likely as long times, because the logarithm of the time
// is evenly distributed.
func drawn(random *rand.Rand, least, most time.Duration) time.Duration {
	ratio := float64(most) / float64(least)
	return time.Duration(float64(least) * math.Pow(ratio, random.Float64())).Round(step)
}
