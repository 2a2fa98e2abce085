package simnode

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
)

// A Machine is one of several machines with one scenario. Together they simulate a fleet. The zero Machine leaves the
// scenario unchanged.
type Machine struct {
	// Number changes every identity in the scenario: the node name, serial numbers, UUIDs and pods. The trays of a rack
	// stay in one chassis, but each tray gets a different slot.
	Number int
	// Boot is the number of earlier boots. Real nodes are drained before a shutdown, so different pods run after each
	// boot.
	Boot int
	// Boards contains the boards that were moved from other machines to this machine, by position in this machine.
	Boards map[int]Board
}

// Board is the original place of a board: a machine with the same scenario, and a position in it.
type Board struct{ Machine, Position int }

// On returns the scenario as it runs on a machine.
func (sc Scenario) On(m Machine) (Scenario, error) {
	if m.Number < 0 || m.Boot < 0 {
		return sc, fmt.Errorf("machine %d, boot %d: must not be negative", m.Number, m.Boot)
	}
	gpus, err := sc.boards(m)
	if err != nil {
		return sc, err
	}
	sc.GPUs = gpus
	sc.Pods = slices.Clone(sc.Pods)
	if m.Number > 0 || m.Boot > 0 {
		suffix := "-" + hexID(sc.Name, strconv.Itoa(m.Number), strconv.Itoa(m.Boot))[:5]
		for i := range sc.Pods {
			sc.Pods[i].Name += suffix
		}
	}
	if m.Number > 0 {
		sc.DMI = sc.dmi(m.Number)
		sc.Node = addToNumber(sc.Node, m.Number)
	}
	return sc, nil
}

// A moved board keeps its identity, but gets the slot and the tray of its new position.
func (sc *Scenario) boards(m Machine) ([]GPU, error) {
	for position, b := range m.Boards {
		for _, p := range []int{position, b.Position} {
			if p < 0 || p >= len(sc.GPUs) {
				return nil, fmt.Errorf("no board %d in %s", p, sc.Name)
			}
		}
		for i, g := range sc.GPUs {
			if _, moved := m.Boards[i]; g.Serial == sc.GPUs[position].Serial && !moved {
				return nil, fmt.Errorf("GPUs %d and %d are on one board and must move together", position, i)
			}
		}
	}
	gpus := slices.Clone(sc.GPUs)
	for i := range gpus {
		b, moved := m.Boards[i]
		if !moved {
			b = Board{m.Number, i}
		}
		g, from := &gpus[i], sc.GPUs[b.Position]
		g.UUID, g.Serial = from.UUID, from.Serial
		if b.Machine > 0 {
			g.UUID = from.uuidOn(b.Machine)
			g.Serial = addToNumber(from.Serial, 1000*b.Machine)
		}
		if g.Place != nil {
			g.Place = new(*g.Place)
			g.Place.Slot += m.Number
			g.Place.Tray += m.Number
		}
	}
	return gpus, nil
}

// uuidOn returns the UUID of the GPU at this position in another machine.
func (g *GPU) uuidOn(machine int) string {
	if g.AMD != nil {
		return hexID(g.UUID, strconv.Itoa(machine))[:16]
	}
	return "GPU-" + uuid(g.UUID, strconv.Itoa(machine))
}

// If the GPUs report the chassis of the machine, all machines are in this chassis. The chassis then keeps its serial
// number.
func (sc *Scenario) dmi(n int) map[string]string {
	dmi := maps.Clone(sc.DMI)
	dmi["product_uuid"] = uuid(dmi["product_uuid"], strconv.Itoa(n))
	own := []string{"product_serial", "board_serial"}
	if p := sc.GPUs[0].Place; p == nil || p.Chassis != dmi["chassis_serial"] {
		own = append(own, "chassis_serial")
		dmi["chassis_asset_tag"] = addToNumber(dmi["chassis_asset_tag"], n)
	}
	for _, name := range own {
		dmi[name] = addToNumber(dmi[name], 1000*n)
	}
	return dmi
}

var lastNumber = regexp.MustCompile(`\d+$`)

// addToNumber adds to the number at the end of a name, and keeps leading zeros.
func addToNumber(name string, by int) string {
	return lastNumber.ReplaceAllStringFunc(name, func(digits string) string {
		n, _ := strconv.ParseInt(digits, 10, 64)
		return fmt.Sprintf("%0*d", len(digits), n+int64(by))
	})
}
