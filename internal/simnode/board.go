package simnode

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// step is the time step of the model. Hardware updates its energy counters at about this interval.
// One watt at one percent for one step is exactly one millijoule, so the model needs no fractions.
const step = 100 * time.Millisecond

// retention is the number of steps for which an account is kept in the truth after its last step.
const retention = int64(time.Minute / step)

// board is the state of a GPU, with its energy and the true accounts.
type board struct {
	GPU
	index int  // index and minor number in the driver
	lost  bool // lost from the bus
	gone  bool // lost; the driver was reloaded since then

	energy, idle, retired gpu.Millijoules // energy since the start
	containers, processes tally
	// base is the value of the counter when energy was loadedAt.
	base, loadedAt gpu.Millijoules

	// busyTime is the busy time of each instance, by position, or of the whole board.
	busyTime []time.Duration
	// running is the process that runs on each instance of an AMD GPU at the end of the step; 0 for
	// none.
	running []uint32

	// throttled is the time for which the GPU was throttled.
	throttled gpu.ThrottledTimes

	// health contains the conditions, or nil without defects; healthAtLoad contains the conditions at
	// the last load of the driver.
	health, healthAtLoad map[Condition]int64

	power int // mean power of the last step in mW
	peak  int // highest power of a step in mW
	busy  int // utilisation in the last step in percent
	ring  ring
	buffers
	// accounts is used if accounting is on.
	accounts accounting
}

// account is one container's (ID zero) or process's use of a board.
type account struct {
	ProcessTruth
	last int64 // last step in which it was on the board
	held int64 // number of steps in which it held an instance
}

// load is one process's activity on a board during a step.
type load struct {
	process  *process
	instance int // position in the board's instances
	context  Context
	watts    int
	percent  int
}

// holder is one allocation of a board, or of an instance of it, to a container.
type holder struct {
	*container
	instance int
}

// part is a MIG instance, or the whole board if the board is not divided. It has slices, holders
// and loads.
type part struct {
	slices  int
	holders []holder
	loads   []load
}

// counter returns the GPU's own energy counter.
func (b *board) counter() gpu.Millijoules { return b.base + b.energy - b.loadedAt }

// draw adds the energy of one step. Each load gets its own energy, and each part gets the floor of
// its slices.
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

// addBusyTime adds the time that each instance, or the whole board, was busy in one step.
func (b *board) addBusyTime(loads []load) {
	percent := make([]int, b.partCount())
	for _, l := range loads {
		percent[l.instance] += l.percent
	}
	for i := range percent {
		b.busyTime[i] += step * time.Duration(min(percent[i], 100)) / 100
	}
}

// chargeFloor charges a share of the floor to the containers that hold a part, or else to the loads
// on the part, or else to idle.
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

// parts returns the parts of a board at the given time. The last part contains the free slices.
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

// charge adds energy to a process and to its container, if it has one.
func (b *board) charge(now int64, p *process, e gpu.Millijoules) {
	b.energy += e
	b.containers.add(now, ProcessTruth{Owner: p.owner, Energy: e})
	b.processes.add(now, ProcessTruth{ProcessID: p.id, Command: p.comm, Owner: p.owner, Energy: e})
}

// chargeHolder charges a share of the floor to a container, divided equally among its processes
// on the board.
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

// tally contains the accounts of a board's containers or processes in order of creation.
type tally struct {
	list []*account
	// byKey indexes the accounts, because the scenario storm has a thousand.
	byKey map[accountKey]*account
}

type accountKey struct {
	process   gpu.ProcessID
	container gpu.Owner
}

// add adds energy to the account with the same key, and creates it if necessary. The host is not
// a container and has no account among the containers.
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

// retire drops the accounts that were last used before the given step.
func (b *board) retire(before int64) {
	b.containers.retire(before, func(a *account) { b.retired += a.Energy })
	b.processes.retire(before, func(a *account) {
		if a.Owner == (gpu.Owner{}) { // otherwise the process is included in its container
			b.retired += a.Energy
		}
	})
}

// hold adds a step to the containers that hold an instance, once for all replicas. They have
// accounts.
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

// truth returns the board's part of a row.
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

// split divides an amount into n nearly equal parts that add up to it.
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
