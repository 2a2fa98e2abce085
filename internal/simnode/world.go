package simnode

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// world is the model, without any files: what runs, what it draws, and what the
// driver knows of it.
type world struct {
	scenario Scenario
	start    gpu.Instant
	steps    int64         // taken since the start
	at       time.Duration // when the last step began, since the start
	random   *rand.Rand

	boards  []*board
	daemons []*process
	pods    []*pod
	vacant  []vacancy
	nextPID uint32
	driver  driver
	kubelet bool    // runs
	events  []Event // still to come
}

// vacancy is the place of a pod that lived as long as it may, until its successor's
// begin.
type vacancy struct {
	spec       *Pod
	generation int   // of the successor
	until      int64 // a step
}

// driver is what the driver knows apart from the GPUs.
type driver struct {
	generation int
	loaded     bool
	xids       []xid
}

// xid is an error event of the driver.
type xid struct {
	uuid string
	code int
}

// fellOffTheBus is the XID of a GPU that fell off the bus.
const fellOffTheBus = 79

func newWorld(sc Scenario, start gpu.Instant) *world {
	w := &world{
		scenario: sc, start: start, random: rand.New(rand.NewPCG(1, 2)), nextPID: 1,
		driver: driver{generation: 1, loaded: true}, kubelet: true, events: sc.Events,
	}
	for i, g := range sc.GPUs {
		w.boards = append(w.boards, &board{
			GPU: g, index: i, base: g.Counter, power: g.Floor * 1000, ring: ring{next: 1}, worked: make([]time.Duration, g.partCount()),
		})
	}
	for _, d := range sc.Daemons {
		w.daemons = append(w.daemons, w.spawn(process{parent: min(1, w.nextPID-1), comm: d.Comm, cgroup: d.Cgroup, work: d.Work}, w.before(time.Hour)))
	}
	for i := range sc.Pods {
		if sc.Pods[i].covers(0) {
			w.pods = append(w.pods, w.newPod(&sc.Pods[i], 1, w.before(10*time.Minute)))
		}
	}
	return w
}

// before returns a time before the start, on the boot clock, but after boot.
func (w *world) before(d time.Duration) time.Duration { return max(w.start.Boot-d, 0) }

// elapsed returns the time simulated so far.
func (w *world) elapsed() time.Duration { return time.Duration(w.steps) * step }

// change is what became different in one step: the pods, and the processes of those that
// stay.
type change struct {
	ended, started []*pod
	died, born     []*process
}

// advance moves the world by one step.
func (w *world) advance() change {
	w.at = w.elapsed()
	ch := w.replaceProcesses(w.replacePods())
	for len(w.events) > 0 && w.events[0].At <= w.at {
		w.happen(w.events[0])
		w.events = w.events[1:]
	}
	holders, loads := w.holders(), w.loads()
	until := w.at + step
	for i, b := range w.boards {
		if b.MIG == nil { // a divided GPU has no such samples
			taken := b.ring.record(w.scenario.Sampling, until, loads[i], w.random)
			if b.Accounting {
				b.accounts.record(until, taken, loads[i])
			}
		}
		if b.lost {
			b.power, b.busy = 0, 0
			continue
		}
		b.work(loads[i])
		b.draw(w.steps, b.parts(w.at, holders[i], loads[i]))
	}
	w.steps++
	return ch
}

// replacePods ends the pods whose time is over, and begins those whose time has
// come.
func (w *world) replacePods() change {
	var ch change
	var living []*pod
	for _, p := range w.pods {
		life := p.spec.Lifetime
		switch {
		case !p.spec.covers(w.at):
			ch.ended = append(ch.ended, p)
			continue
		case life > 0 && time.Duration(w.steps-p.born)*step >= life:
			ch.ended = append(ch.ended, p)
			if pause := p.spec.Pause; pause > 0 {
				w.vacant = append(w.vacant, vacancy{p.spec, p.generation + 1, w.steps + int64(pause/step)})
				continue
			}
			p = w.newPod(p.spec, p.generation+1, w.start.Boot+w.at)
			ch.started = append(ch.started, p)
		}
		living = append(living, p)
	}
	for _, p := range w.fillVacancies() {
		ch.started = append(ch.started, p)
		living = append(living, p)
	}
	for i := range w.scenario.Pods {
		if spec := &w.scenario.Pods[i]; w.at > 0 && spec.From == w.at {
			p := w.newPod(spec, 1, w.start.Boot+w.at)
			ch.started = append(ch.started, p)
			living = append(living, p)
		}
	}
	w.pods = living
	return ch
}

// replaceProcesses ends the processes that lived as long as they may, and adds their
// successors.
func (w *world) replaceProcesses(ch change) change {
	for _, p := range w.pods {
		for _, c := range p.containers {
			for i, old := range c.processes {
				if old.life == 0 || time.Duration(w.steps-old.born)*step < old.life {
					continue
				}
				c.processes[i] = w.spawn(*old, w.start.Boot+w.at)
				ch.died, ch.born = append(ch.died, old), append(ch.born, c.processes[i])
			}
		}
	}
	return ch
}

// fillVacancies begins the pods whose predecessor's pause is over.
func (w *world) fillVacancies() []*pod {
	var started []*pod
	w.vacant = slices.DeleteFunc(w.vacant, func(v vacancy) bool {
		due := v.until <= w.steps
		if due && v.spec.covers(w.at) {
			started = append(started, w.newPod(v.spec, v.generation, w.start.Boot+w.at))
		}
		return due
	})
	return started
}

// happen lets an event happen.
func (w *world) happen(e Event) {
	switch e.Do {
	case FallOff:
		b := w.boards[e.GPU]
		b.lost, b.ring.samples = true, nil
		w.driver.xids = append(w.driver.xids, xid{b.UUID, fellOffTheBus})
	case UnloadDriver:
		w.driver.loaded = false
	case LoadDriver:
		w.driver.loaded = true
		w.driver.generation++
		w.renumber()
	case StopKubelet:
		w.kubelet = false
	case StartKubelet:
		w.kubelet = true
	}
}

// renumber is what a loading driver does: it leaves out the GPUs that it cannot
// reach, and counts energy from zero.
func (w *world) renumber() {
	next := 0
	for _, b := range w.boards {
		if b.gone = b.lost; b.gone {
			continue
		}
		b.index, b.base, b.loadedAt, b.ring.samples, b.accounts = next, 0, b.energy, nil, accounting{}
		next++
	}
}

// holders returns, for each board, the containers that hold it by allocation, once
// for each replica or instance that they hold.
func (w *world) holders() [][]holder {
	holders := make([][]holder, len(w.boards))
	for _, p := range w.pods {
		for _, c := range p.containers {
			for _, d := range w.held(c.spec) {
				holders[d.GPU] = append(holders[d.GPU], holder{c, w.boards[d.GPU].instance(d.Part)})
			}
		}
	}
	return holders
}

// held lists what a container holds. What it may only look at does not count.
func (w *world) held(c *Container) []Device {
	held := slices.Clone(c.Devices)
	for _, i := range c.Claims {
		if claim := w.scenario.Claims[i]; !claim.Admin {
			held = append(held, claim.Devices...)
		}
	}
	return held
}

// loads returns, for each board, the processes on it and how busy they are now.
// Nothing runs on a lost GPU, or without a driver.
func (w *world) loads() [][]load {
	loads := make([][]load, len(w.boards))
	for _, p := range w.processes() {
		for _, k := range p.work {
			l := load{p, k.Instance, k.Context, k.Watts, k.Load.at(w.at)}
			if w.boards[k.GPU].lost || !w.driver.loaded {
				l.percent = 0
			}
			loads[k.GPU] = append(loads[k.GPU], l)
		}
	}
	return loads
}

// processes lists all processes that live.
func (w *world) processes() []*process {
	all := slices.Clone(w.daemons)
	for _, p := range w.pods {
		all = append(all, p.all()...)
	}
	return all
}

// module returns the energy counter of a board with all its GPUs.
func (w *world) module(serial string) gpu.Millijoules {
	var sum gpu.Millijoules
	for _, b := range w.boards {
		if b.Serial == serial {
			sum += b.counter()
		}
	}
	return sum
}

// modulePower returns the power of a board with all its GPUs, in mW.
func (w *world) modulePower(serial string) int {
	sum := 0
	for _, b := range w.boards {
		if b.Serial == serial {
			sum += b.power
		}
	}
	return sum
}

// truth returns the row of the last step.
func (w *world) truth() Truth {
	t := Truth{
		Time: w.start.Wall.Add(w.elapsed()).UnixNano(),
		Boot: int64(w.start.Boot + w.elapsed()),
	}
	for _, b := range w.boards {
		g := b.truth()
		if w.driver.loaded && !b.lost {
			g.Counter = new(b.counter())
			if b.Counts == CountsModule {
				g.Counter = new(w.module(b.Serial))
			}
		}
		t.GPUs = append(t.GPUs, g)
	}
	t.Modules = modules(t.GPUs)
	return t
}

// modules sums the GPUs that share a board, in the order in which boards appear.
func modules(gpus []GPUTruth) []ModuleTruth {
	var out []ModuleTruth
	for _, serial := range shared(gpus) {
		m := ModuleTruth{Serial: serial}
		for _, g := range gpus {
			if g.Serial == serial {
				m.add(g)
			}
		}
		out = append(out, m)
	}
	return out
}

// shared lists the serials that more than one GPU has.
func shared(gpus []GPUTruth) []string {
	var out []string
	seen := make(map[string]int)
	for _, g := range gpus {
		if seen[g.Serial]++; seen[g.Serial] == 2 {
			out = append(out, g.Serial)
		}
	}
	return out
}

// add adds one GPU of the module.
func (m *ModuleTruth) add(g GPUTruth) {
	m.Energy += g.Energy
	for _, c := range g.Containers {
		i := slices.IndexFunc(m.Containers, func(o ContainerTruth) bool { return o.Owner == c.Owner })
		if i < 0 {
			m.Containers = append(m.Containers, c)
			continue
		}
		m.Containers[i].Energy += c.Energy
	}
}
