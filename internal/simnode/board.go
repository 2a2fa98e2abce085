package simnode

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// step is the time step of the model. Real GPUs update their energy counters at about this interval. The model needs no
// fractions, because one watt at one percent for one step is exactly one millijoule.
const step = 100 * time.Millisecond

// retention is the number of steps for which the truth keeps an account after its last use.
const retention = int64(time.Minute / step)

type board struct {
	GPU
	index int  // index and minor number in the driver
	lost  bool // lost from the bus
	gone  bool // lost before the last load of the driver

	energy, idle, retired gpu.Millijoules // energy since the start
	containers, processes tally
	// When the driver was last loaded, the counter had the value base, and energy had the value loadedAt.
	base, loadedAt gpu.Millijoules

	// busyTime contains the busy time of each instance, by position. If the board has no instances, it contains the
	// busy time of the board.
	busyTime []time.Duration
	// running contains the PID on each instance of an AMD GPU at the end of the step, or 0 if the instance is idle.
	running []uint32

	throttled gpu.ThrottledTimes

	// health contains the conditions. It is nil for a GPU without defects. healthAtLoad is the health at the last load
	// of the driver.
	health, healthAtLoad map[Condition]int64

	power int // mean power of the last step in mW
	peak  int // highest power of a step in mW
	busy  int // utilisation in the last step in percent
	ring  ring
	buffers
	// accounts is used if accounting mode is on.
	accounts accounting
}

// account contains the use of a board by one process or container. The process ID of a container's account is zero.
type account struct {
	ProcessTruth
	last int64 // last step in which the process or container used or held the board
	held int64 // number of steps in which the container held an instance
}

type load struct {
	process  *process
	instance int // position in the board's instances
	context  Context
	watts    int
	percent  int
}

// holder is a container with an allocation of a board or of one of its instances.
type holder struct {
	*container
	instance int
}

// A part is a MIG instance, the free slices, or the whole board if it is not divided.
type part struct {
	slices  int
	holders []holder
	loads   []load
}

// counter returns the GPU's own energy counter.
func (b *board) counter() gpu.Millijoules { return b.base + b.energy - b.loadedAt }

// draw adds the energy of one step. It divides the floor among the parts by slices.
func (b *board) draw(now int64, parts []part) {
	total := 0
	for _, p := range parts {
		total += p.slices
	}
	before, busy, used := b.energy, 0, 0
	for _, p := range parts {
		for _, l := range p.loads {
			b.charge(now, l.process, gpu.Millijoules(l.watts*l.percent))
			busy += l.percent * p.slices
		}
		floor := b.Floor * 100 // mJ
		b.chargeFloor(now, p, gpu.Millijoules(floor*(used+p.slices)/total-floor*used/total))
		used += p.slices
	}
	for cause, percent := range b.Throttle {
		b.throttled[cause] += step * time.Duration(percent) / 100
	}
	b.busy = busy / total
	b.power = int(b.energy-before) * int(time.Second/step)
	b.peak = max(b.peak, b.power)
	b.retire(now - retention)
}

func (b *board) addBusyTime(loads []load) {
	percent := make([]int, b.partCount())
	for _, l := range loads {
		percent[l.instance] += l.percent
	}
	for i := range percent {
		b.busyTime[i] += step * time.Duration(min(percent[i], 100)) / 100
	}
}

// chargeFloor charges a share of the floor to the containers that hold a part. If no container holds the part, it
// charges the loads on the part. If there are no loads either, the share is idle.
func (b *board) chargeFloor(now int64, p part, floor gpu.Millijoules) {
	switch {
	case len(p.holders) > 0:
		for i, share := range split(floor, len(p.holders)) {
			b.chargeHolder(now, p.holders[i], p.loads, share)
		}
		b.containers.hold(p.holders)
	case len(p.loads) > 0:
		for i, share := range split(floor, len(p.loads)) {
			b.charge(now, p.loads[i].process, share)
		}
	default:
		b.idle += floor
		b.energy += floor
	}
}

// If the board is divided, the last part contains the free slices.
func (b *board) parts(t time.Duration, holders []holder, loads []load) []part {
	if b.MIG == nil {
		return []part{{1, holders, loads}}
	}
	var parts []part
	free := b.MIG.Slices
	for _, i := range b.offered(t) {
		p := part{slices: b.MIG.Instances[i].Slices}
		for _, h := range holders {
			if h.instance == i {
				p.holders = append(p.holders, h)
			}
		}
		for _, l := range loads {
			if l.instance == i {
				p.loads = append(p.loads, l)
			}
		}
		parts = append(parts, p)
		free -= p.slices
	}
	return append(parts, part{slices: free})
}

func (b *board) charge(now int64, p *process, e gpu.Millijoules) {
	b.energy += e
	b.containers.add(now, ProcessTruth{Owner: p.owner, Energy: e})
	b.processes.add(now, ProcessTruth{ProcessID: p.id, Command: p.comm, Owner: p.owner, Energy: e})
}

// chargeHolder divides the share equally among the container's processes on the board.
func (b *board) chargeHolder(now int64, h holder, loads []load, e gpu.Millijoules) {
	var own []*process
	for _, l := range loads {
		if l.process.owner == h.Owner {
			own = append(own, l.process)
		}
	}
	if len(own) == 0 {
		b.energy += e
		b.containers.add(now, ProcessTruth{Owner: h.Owner, Energy: e})
	}
	for i, share := range split(e, len(own)) {
		b.charge(now, own[i], share)
	}
}

// tally contains the accounts of the containers or processes on a board, in the order of their creation.
type tally struct {
	list []*account
	// byKey makes lookups fast, because the scenario storm has a thousand accounts.
	byKey map[accountKey]*account
}

type accountKey struct {
	process   gpu.ProcessID
	container gpu.Owner
}

// In a tally of containers, processes of the host have an empty key. add ignores them.
func (t *tally) add(now int64, e ProcessTruth) {
	key := accountKey{e.ProcessID, e.Owner}
	if key == (accountKey{}) {
		return
	}
	if t.byKey == nil {
		t.byKey = make(map[accountKey]*account)
	}
	a := t.byKey[key]
	if a == nil {
		t.byKey[key] = &account{ProcessTruth: e, last: now}
		t.list = append(t.list, t.byKey[key])
		return
	}
	a.Energy += e.Energy
	a.last = now
}

func (b *board) retire(before int64) {
	b.containers.retire(before, func(a *account) { b.retired += a.Energy })
	b.processes.retire(before, func(a *account) {
		if a.Owner == (gpu.Owner{}) { // otherwise the energy retires with the container's account
			b.retired += a.Energy
		}
	})
}

// hold adds a step to the held time of each container. Several replicas of one instance count once. Each container must
// already have an account.
func (t *tally) hold(holders []holder) {
	for i, h := range holders {
		if !slices.ContainsFunc(holders[:i], func(o holder) bool { return o.container == h.container }) {
			t.byKey[accountKey{container: h.Owner}].held++
		}
	}
}

func (t *tally) retire(before int64, drop func(*account)) {
	t.list = slices.DeleteFunc(t.list, func(a *account) bool {
		if a.last >= before {
			return false
		}
		drop(a)
		delete(t.byKey, accountKey{a.ProcessID, a.Owner})
		return true
	})
}

func (b *board) truth() GPUTruth {
	t := GPUTruth{UUID: b.UUID, Serial: b.Serial, Energy: b.energy, Peak: int64(b.peak), Idle: b.idle, Retired: b.retired, Health: b.conditions()}
	for _, a := range b.containers.list {
		t.Containers = append(t.Containers, ContainerTruth{a.Owner, a.Energy, a.held * step.Milliseconds()})
	}
	for _, a := range b.processes.list {
		t.Processes = append(t.Processes, a.ProcessTruth)
	}
	return t
}

func split(e gpu.Millijoules, n int) []gpu.Millijoules {
	parts := make([]gpu.Millijoules, n)
	for i := range parts {
		parts[i] = e / gpu.Millijoules(n)
		if gpu.Millijoules(i) < e%gpu.Millijoules(n) {
			parts[i]++
		}
	}
	return parts
}
