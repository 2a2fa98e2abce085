package simnode

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// step is the time by which the model moves. Hardware's energy counters move in
// steps of about this length, too. One watt at one percent for one step is
// exactly one millijoule, so that the model needs no fractions.
const step = 100 * time.Millisecond

// retention is how many steps an account stays in the truth after its last one.
const retention = int64(time.Minute / step)

// board is a GPU in motion: its energy and who really used it.
type board struct {
	GPU
	index int  // the driver's index and minor number
	lost  bool // fell off the bus
	gone  bool // lost, and the driver was loaded since

	energy, idle, retired gpu.Millijoules // since the start
	containers            []*account
	processes             []*account
	// base is what the counter showed when loadedAt had been used.
	base, loadedAt gpu.Millijoules

	power int // mW over the last step
	busy  int // percent of the last step
	ring  ring
}

// account is what one container (ID zero) or process used of a board.
type account struct {
	ProcessTruth
	last int64 // the last step in which it was on the board
}

// load is one process's activity on a board during a step.
type load struct {
	process *process
	watts   int
	percent int
}

// counter returns the GPU's own energy counter.
func (b *board) counter() gpu.Millijoules { return b.base + b.energy - b.loadedAt }

// draw adds the energy of one step: to each load its own watts, and the floor to
// the containers that hold the board, else to the loads, else to nobody.
func (b *board) draw(now int64, holders []*container, loads []load) {
	before := b.energy
	b.busy = 0
	for _, l := range loads {
		b.charge(now, l.process, gpu.Millijoules(l.watts*l.percent))
		b.busy += l.percent
	}
	floor := gpu.Millijoules(b.Floor * 100)
	switch {
	case len(holders) > 0:
		for i, share := range split(floor, len(holders)) {
			b.chargeHolder(now, holders[i], loads, share)
		}
	case len(loads) > 0:
		for i, share := range split(floor, len(loads)) {
			b.charge(now, loads[i].process, share)
		}
	default:
		b.idle += floor
		b.energy += floor
	}
	b.power = int(b.energy-before) * int(time.Second/step)
	b.retire(now - retention)
}

// charge adds energy to a process and to its container, if it has one.
func (b *board) charge(now int64, p *process, e gpu.Millijoules) {
	b.energy += e
	b.containers = add(b.containers, now, ProcessTruth{Container: p.owner, Energy: e})
	b.processes = add(b.processes, now, ProcessTruth{ProcessID: p.id, Name: p.comm, Container: p.owner, Energy: e})
}

// chargeHolder adds a share of the floor to a container, spread evenly over its
// processes on the board.
func (b *board) chargeHolder(now int64, c *container, loads []load, e gpu.Millijoules) {
	var own []*process
	for _, l := range loads {
		if l.process.owner == c.Container {
			own = append(own, l.process)
		}
	}
	if len(own) == 0 {
		b.energy += e
		b.containers = add(b.containers, now, ProcessTruth{Container: c.Container, Energy: e})
	}
	for i, share := range split(e, len(own)) {
		b.charge(now, own[i], share)
	}
}

// add adds energy to the account with the same key, opening it if need be. The
// host, which is no container, has no account among the containers.
func add(accounts []*account, now int64, e ProcessTruth) []*account {
	if e.ProcessID == (gpu.ProcessID{}) && e.Container == (gpu.Container{}) {
		return accounts
	}
	i := slices.IndexFunc(accounts, func(a *account) bool {
		return a.ProcessID == e.ProcessID && a.Container == e.Container
	})
	if i < 0 {
		return append(accounts, &account{ProcessTruth: e, last: now})
	}
	accounts[i].Energy += e.Energy
	accounts[i].last = now
	return accounts
}

// retire drops the accounts that were last used before a step.
func (b *board) retire(before int64) {
	old := func(a *account) bool {
		inContainer := a.ProcessID != (gpu.ProcessID{}) && a.Container != (gpu.Container{})
		if a.last >= before {
			return false
		}
		if !inContainer {
			b.retired += a.Energy
		}
		return true
	}
	b.containers = slices.DeleteFunc(b.containers, old)
	b.processes = slices.DeleteFunc(b.processes, old)
}

// truth returns the board's part of a row.
func (b *board) truth() GPUTruth {
	t := GPUTruth{UUID: b.UUID, Serial: b.Serial, Energy: b.energy, Idle: b.idle, Retired: b.retired}
	for _, a := range b.containers {
		t.Containers = append(t.Containers, ContainerTruth{a.Container, a.Energy})
	}
	for _, a := range b.processes {
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
