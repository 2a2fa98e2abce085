package worlds

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"time"
)

// MoveHours is the length of a history with moves, in hours.
const MoveHours = 30

// Moves contains the placements and the events of boards.
type Moves struct {
	*History
	Events []MoveEvent
}

// A MoveEvent raises an alert: a board appears in another slot, or a slot contains another board.
type MoveEvent struct {
	Alert string
	At    time.Duration
	Place map[string]string
}

type slot struct {
	node string
	bus  int
}

func (s slot) labels(uuid string) map[string]string {
	return map[string]string{
		"node": s.node, "system_uuid": "machine-" + s.node, "UUID": uuid, "serial": "S-" + uuid, "model": "NVIDIA H100 80GB HBM3",
		"chassis_serial": "C-" + s.node, "chassis_slot": fmt.Sprint(s.bus), "pci_bus_id": fmt.Sprintf("00000000:%02X:00.0", s.bus),
	}
}

const (
	movesEnd = MoveHours * time.Hour
	// pause is the minimum time between two events of a node. It is long, because alerts ignore a GPU that returns
	// within two hours.
	pause     = 5 * time.Hour
	gpusAMove = 4 // number of GPUs in a node
)

// rack contains the boards of one fleet. Its name is part of the names of nodes and boards.
type rack struct {
	Moves
	name   string
	random *rand.Rand
	boards map[slot]string
	since  map[slot]time.Duration
	busy   map[string]time.Duration // time until which a node has no further event
	made   int
}

// RandomMoves returns fleets with random events. Nodes are installed or rebooted. Boards are replaced, exchanged or
// moved, but do not move between fleets.
func RandomMoves(random *rand.Rand, fleets int) Moves {
	all := Moves{History: New(time.Minute)}
	for n := range fleets {
		r := &rack{Moves{History: all.History}, fmt.Sprint(n), random, make(map[slot]string), make(map[slot]time.Duration), make(map[string]time.Duration), 0}
		r.run()
		all.Events = append(all.Events, r.Events...)
	}
	return all
}

func (r *rack) run() {
	nodes := []string{"a" + r.name, "b" + r.name, "c" + r.name}
	for i, node := range nodes {
		at := time.Duration(0)
		if i > 0 {
			at = r.minutes(8 * time.Hour)
		}
		r.busy[node] = at + pause
		for bus := 1; bus <= gpusAMove; bus++ {
			r.put(slot{node, bus}, r.board(), at)
		}
	}
	for {
		r.random.Shuffle(3, func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		if !r.work(nodes[0], nodes[1]) {
			break
		}
	}
	for s := range r.boards {
		r.pull(s, movesEnd)
	}
}

func (r *rack) minutes(most time.Duration) time.Duration {
	return time.Minute + time.Duration(r.random.Int64N(int64(most/time.Minute)))*time.Minute
}

func (r *rack) board() string {
	r.made++
	return fmt.Sprintf("GPU-%s-%d-%d", r.name, r.made, r.random.IntN(1000))
}

func (r *rack) put(s slot, uuid string, at time.Duration) { r.boards[s], r.since[s] = uuid, at }

func (r *rack) pull(s slot, at time.Duration) {
	r.Constant(Series(Placement, s.labels(r.boards[s])), r.since[s], at, 1)
	delete(r.boards, s)
}

// work turns two nodes off and on again, the second node some minutes after the first. Usually some boards change while
// the nodes are off. work returns false at the end of the history.
func (r *rack) work(x, y string) bool {
	off := max(r.busy[x], r.busy[y]) + r.minutes(3*time.Hour)
	on := map[string]time.Duration{x: off + r.minutes(100*time.Minute)}
	on[y] = on[x] + r.minutes(10*time.Minute)
	if on[y]+pause > movesEnd {
		return false
	}
	before, known := make(map[slot]string), make(map[string]bool)
	for _, node := range []string{x, y} {
		r.busy[node] = on[y] + pause
		for bus := 1; bus <= gpusAMove; bus++ {
			s := slot{node, bus}
			before[s], known[r.boards[s]] = r.boards[s], true
			r.pull(s, off)
		}
	}
	after := maps.Clone(before)
	one, other := slot{x, 1 + r.random.IntN(gpusAMove)}, slot{y, 1 + r.random.IntN(gpusAMove)}
	sibling := slot{x, one.bus%gpusAMove + 1}
	switch r.random.IntN(4) {
	case 0: // only a reboot
	case 1:
		after[one] = r.board()
	case 2: // a board moves, and a new board takes its place
		after[other], after[one] = before[one], r.board()
	case 3:
		after[one], after[sibling] = before[sibling], before[one]
	}
	for s, uuid := range after {
		r.put(s, uuid, on[s.node])
		if before[s] == uuid {
			continue
		}
		r.Events = append(r.Events, MoveEvent{"GPULedgerGPUReplaced", on[s.node], s.labels(uuid)})
		if known[uuid] {
			r.Events = append(r.Events, MoveEvent{"GPULedgerGPUMoved", on[s.node], s.labels(uuid)})
		}
	}
	return true
}
