package simnode

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// world is the model of the node: the workloads, their power, and the driver's state. It writes no files.
type world struct {
	scenario Scenario
	start    gpu.Instant
	steps    int64         // number of steps since the start
	at       time.Duration // time since the start at which the last step began
	random   *rand.Rand

	boards  []*board
	daemons []*process
	pods    []*pod
	pending []pendingPod // successors of ended pods
	nextPID uint32
	driver  driver
	kubelet bool
	events  []Event // events that have not happened yet
}

// A pendingPod waits until its pause ends.
type pendingPod struct {
	spec       *Pod
	generation int
	until      int64 // step in which the pause ends
}

// driver is the state of NVIDIA's driver, without the states of the GPUs.
type driver struct {
	generation int
	loaded     bool
	xids       []xid
}

type xid struct {
	uuid string
	code int
}

const fellOffTheBus = 79

func newWorld(sc Scenario, start gpu.Instant) *world {
	w := &world{
		scenario: sc, start: start, random: rand.New(rand.NewPCG(1, 2)), nextPID: 1,
		driver: driver{generation: 1}, kubelet: !sc.NoKubelet, events: sc.Events,
	}
	for _, g := range sc.GPUs {
		w.boards = append(w.boards, &board{
			GPU: g, base: g.Counter, power: g.Floor * 1000, ring: ring{next: 1},
			busyTime: make([]time.Duration, g.partCount()), running: make([]uint32, g.partCount()), health: newHealth(&g),
		})
	}
	w.driver.loaded = w.number() > 0
	for _, d := range sc.Daemons {
		w.daemons = append(w.daemons, w.spawn(process{parent: min(1, w.nextPID-1), comm: d.Comm, cgroup: d.Cgroup, work: d.Work}, w.beforeStart(time.Hour)))
	}
	for i := range sc.Pods {
		if sc.Pods[i].covers(0) {
			w.pods = append(w.pods, w.newPod(&sc.Pods[i], 1, w.beforeStart(10*time.Minute)))
		}
	}
	return w
}

// beforeStart returns the boot-clock time at d before the start, but at least 0.
func (w *world) beforeStart(d time.Duration) time.Duration { return max(w.start.Boot-d, 0) }

func (w *world) elapsed() time.Duration { return time.Duration(w.steps) * step }

// change is the result of one step. It lists a process only if its pod neither ended nor started.
type change struct {
	endedPods, startedPods           []*pod
	endedProcesses, startedProcesses []*process
}

func (w *world) advance() change {
	w.at = w.elapsed()
	ch := w.replaceProcesses(w.replacePods())
	for len(w.events) > 0 && w.events[0].At <= w.at {
		w.applyEvent(w.events[0])
		w.events = w.events[1:]
	}
	holders, loads := w.holders(), w.loads()
	until := w.at + step
	for i, b := range w.boards {
		var taken []sample
		switch {
		case b.AMD != nil:
			b.occupy(w.steps, w.scenario.Sampling, loads[i], w.random)
			render(i, loads[i])
		case b.MIG == nil: // a GPU in MIG mode has no samples
			taken = b.ring.record(w.scenario.Sampling, until, loads[i], w.random)
			if b.Accounting {
				b.accounts.record(until, taken, loads[i])
			}
		}
		if b.lost {
			b.power, b.busy = 0, 0
			continue
		}
		b.worsen(w.at)
		b.addBusyTime(loads[i])
		b.draw(w.steps, b.parts(w.at, holders[i], loads[i]))
		b.buffer(w.scenario.Sampling, w.at, loads[i], taken)
	}
	w.steps++
	return ch
}

func (w *world) replacePods() change {
	var ch change
	var living []*pod
	for _, p := range w.pods {
		lifetime := p.spec.Lifetime
		switch {
		case !p.spec.covers(w.at):
			ch.endedPods = append(ch.endedPods, p)
			continue
		case lifetime > 0 && time.Duration(w.steps-p.startStep)*step >= lifetime:
			ch.endedPods = append(ch.endedPods, p)
			if pause := p.spec.Pause; pause > 0 {
				w.pending = append(w.pending, pendingPod{p.spec, p.generation + 1, w.steps + int64(pause/step)})
				continue
			}
			p = w.newPod(p.spec, p.generation+1, w.start.Boot+w.at)
			ch.startedPods = append(ch.startedPods, p)
		}
		living = append(living, p)
	}
	for _, p := range w.startPending() {
		ch.startedPods = append(ch.startedPods, p)
		living = append(living, p)
	}
	for i := range w.scenario.Pods {
		if spec := &w.scenario.Pods[i]; w.at > 0 && spec.From == w.at {
			p := w.newPod(spec, 1, w.start.Boot+w.at)
			ch.startedPods = append(ch.startedPods, p)
			living = append(living, p)
		}
	}
	w.pods = living
	return ch
}

func (w *world) replaceProcesses(ch change) change {
	for _, p := range w.pods {
		for _, c := range p.containers {
			for i, old := range c.processes {
				if old.lifetime == 0 || time.Duration(w.steps-old.startStep)*step < old.lifetime {
					continue
				}
				c.processes[i] = w.spawn(*old, w.start.Boot+w.at)
				ch.endedProcesses, ch.startedProcesses = append(ch.endedProcesses, old), append(ch.startedProcesses, c.processes[i])
			}
		}
	}
	return ch
}

func (w *world) startPending() []*pod {
	var started []*pod
	w.pending = slices.DeleteFunc(w.pending, func(v pendingPod) bool {
		due := v.until <= w.steps
		if due && v.spec.covers(w.at) {
			started = append(started, w.newPod(v.spec, v.generation, w.start.Boot+w.at))
		}
		return due
	})
	return started
}

func (w *world) applyEvent(e Event) {
	switch e.Do {
	case FallOff:
		b := w.boards[e.GPU]
		b.lost, b.ring.samples = true, nil
		w.reportXID(b, fellOffTheBus)
	case ReportXID:
		w.reportXID(w.boards[e.GPU], e.XID)
	case UnloadDriver:
		w.driver.loaded = false
	case LoadDriver:
		w.driver.loaded = true
		w.driver.generation++
		if e.Driver != nil {
			w.scenario.Driver = *e.Driver
		}
		w.renumber()
	case ResetGPU:
		w.boards[e.GPU].lost = false
		w.boards[e.GPU].restart()
	case StopKubelet:
		w.kubelet = false
	case StartKubelet:
		w.kubelet = true
	}
}

func (w *world) reportXID(b *board, code int) {
	w.driver.xids = append(w.driver.xids, xid{b.UUID, code})
	if b.health != nil {
		b.health[Condition(fmt.Sprintf("xid_%d", code))]++
	}
}

// A reloaded driver omits unreachable GPUs, and its energy counters start at zero.
func (w *world) renumber() {
	for _, b := range w.boards {
		if b.gone = b.lost; b.AMD == nil && !b.gone {
			b.restart()
		}
	}
	w.number()
}

func (b *board) restart() {
	b.base, b.loadedAt, b.ring.samples, b.accounts = 0, b.energy, nil, accounting{}
	b.healthAtLoad = maps.Clone(b.health)
}

// number assigns an index to each GPU in NVIDIA's driver, and returns the number of these GPUs.
func (w *world) number() int {
	next := 0
	for _, b := range w.boards {
		if b.AMD == nil && !b.gone {
			b.index = next
			next++
		}
	}
	return next
}

// An AMD GPU does not depend on NVIDIA's driver.
func (w *world) down(b *board) bool { return b.lost || b.AMD == nil && !w.driver.loaded }

// holders returns, for each board, the containers that hold it by allocation. A container appears once for each replica
// or instance that it holds.
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

// held omits devices with admin access.
func (w *world) held(c *Container) []Device {
	held := slices.Clone(c.Devices)
	for _, i := range c.Claims {
		if claim := w.scenario.Claims[i]; !claim.Admin {
			held = append(held, claim.Devices...)
		}
	}
	return held
}

// loads returns the processes with a context on each board, and their current activity. No process is active on a lost
// GPU or while no driver is loaded.
func (w *world) loads() [][]load {
	loads := make([][]load, len(w.boards))
	for _, p := range w.processes() {
		for _, k := range p.work {
			if k.Context == Monitor {
				continue
			}
			l := load{p, k.Instance, k.Context, k.Watts, k.Load.at(w.at)}
			if w.down(w.boards[k.GPU]) {
				l.percent = 0
			}
			loads[k.GPU] = append(loads[k.GPU], l)
		}
	}
	return loads
}

func (w *world) processes() []*process {
	all := slices.Clone(w.daemons)
	for _, p := range w.pods {
		all = append(all, p.all()...)
	}
	return all
}

// memoryUsed is in bytes.
func (w *world) memoryUsed(gpu int) uint64 {
	used := uint64(gib / 2) // memory that the driver itself uses
	for _, p := range w.processes() {
		for _, k := range p.work {
			if k.GPU == gpu {
				used += k.Memory
			}
		}
	}
	return used
}

// module returns the sum of the energy counters of a module's GPUs.
func (w *world) module(serial string) gpu.Millijoules {
	var sum gpu.Millijoules
	for _, b := range w.boards {
		if b.Serial == serial {
			sum += b.counter()
		}
	}
	return sum
}

// modulePower is in mW.
func (w *world) modulePower(serial string) int {
	sum := 0
	for _, b := range w.boards {
		if b.Serial == serial {
			sum += b.power
		}
	}
	return sum
}

func (w *world) truth() Truth {
	t := Truth{
		Time: w.start.Wall.Add(w.elapsed()).UnixNano(),
		Boot: int64(w.start.Boot + w.elapsed()),
	}
	for _, b := range w.boards {
		g := b.truth()
		if !w.down(b) {
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

// modules returns the sums over the GPUs of each board with several GPUs, in the order of the boards' first GPUs.
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

func (m *ModuleTruth) add(g GPUTruth) {
	m.Energy += g.Energy
	for _, c := range g.Containers {
		i := slices.IndexFunc(m.Containers, func(o ContainerTruth) bool { return o.Owner == c.Owner })
		if i < 0 {
			m.Containers = append(m.Containers, c)
			continue
		}
		m.Containers[i].Energy += c.Energy
		m.Containers[i].Held += c.Held
	}
}
