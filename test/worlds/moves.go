package worlds

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// MoveHours is the length of a history with moves.
const MoveHours = 30

// Moves is the record of placements, with the events of its boards.
type Moves struct {
	*History
	Events []MoveEvent
}

// MoveEvent is the moment at which a board appears in another place, or a slot has another board, with the alert on it.
type MoveEvent struct {
	Alert string
	At    time.Duration
	Place map[string]string
}

// slot is a place of a board.
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

// RandomMoves returns a fleet with random events: nodes are installed, reboot and are silent, boards are swapped, exchanged and
// moved. Between two events of a node are five hours: what returns within two is no event for alerts.
func RandomMoves(random *rand.Rand) Moves {
	const end, pause = MoveHours * time.Hour, 5 * time.Hour
	m := Moves{History: New(time.Minute)}
	minute := func(most time.Duration) time.Duration {
		return time.Minute + time.Duration(random.Int64N(int64(most/time.Minute)))*time.Minute
	}
	boards, since := make(map[slot]string), make(map[slot]time.Duration)
	made := 0
	board := func() string { made++; return fmt.Sprintf("GPU-%d-%d", made, random.IntN(1000)) }
	put := func(s slot, uuid string, at time.Duration) { boards[s], since[s] = uuid, at }
	pull := func(s slot, at time.Duration) {
		m.Constant(Series(Placement, s.labels(boards[s])), since[s], at, 1)
		delete(boards, s)
	}
	event := func(alert string, s slot, at time.Duration) {
		m.Events = append(m.Events, MoveEvent{alert, at, s.labels(boards[s])})
	}
	const gpus = 4
	busy := make(map[string]time.Duration) // until when a node has had no event
	for _, node := range []string{"a", "b", "c"} {
		at := time.Duration(0)
		if node != "a" {
			at = minute(8 * time.Hour)
		}
		busy[node] = at + pause
		for bus := 1; bus <= gpus; bus++ {
			put(slot{node, bus}, board(), at)
		}
	}
	for {
		nodes := []string{"a", "b", "c"}
		random.Shuffle(3, func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		x, y := nodes[0], nodes[1]
		at := max(busy[x], busy[y]) + minute(3*time.Hour)
		back := at + minute(100*time.Minute)
		if back+pause > end {
			break
		}
		busy[x], busy[y] = back+pause, back+pause
		// The nodes are off from at to back, one a while longer.
		late := back + minute(10*time.Minute)
		before := make(map[slot]string)
		for _, node := range []string{x, y} {
			for bus := 1; bus <= gpus; bus++ {
				if s := (slot{node, bus}); boards[s] != "" {
					before[s] = boards[s]
					pull(s, at)
				}
			}
		}
		after := make(map[slot]string)
		for s, uuid := range before {
			after[s] = uuid
		}
		one, other := slot{x, 1 + random.IntN(gpus)}, slot{y, 1 + random.IntN(gpus)}
		sibling := slot{x, one.bus%gpus + 1}
		switch random.IntN(4) {
		case 0: // a reboot
		case 1:
			after[one] = board()
		case 2: // a board moves, and a new one takes its place
			after[other], after[one] = before[one], board()
		case 3:
			after[one], after[sibling] = before[sibling], before[one]
		}
		was := make(map[string]slot)
		for s, uuid := range before {
			was[uuid] = s
		}
		for _, node := range []string{x, y} {
			for bus := 1; bus <= gpus; bus++ {
				s, on := slot{node, bus}, back
				if node == y {
					on = late
				}
				put(s, after[s], on)
				if before[s] == after[s] {
					continue
				}
				event("GPULedgerGPUReplaced", s, on)
				if _, moved := was[after[s]]; moved {
					event("GPULedgerGPUMoved", s, on)
				}
			}
		}
	}
	var slots []slot
	for s := range boards {
		slots = append(slots, s)
	}
	slices.SortFunc(slots, func(a, b slot) int {
		return slices.Compare([]string{a.node, fmt.Sprint(a.bus)}, []string{b.node, fmt.Sprint(b.bus)})
	})
	for _, s := range slots {
		pull(s, end)
	}
	return m
}
