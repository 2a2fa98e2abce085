package validator

import (
	"fmt"
	"slices"

	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/internal/nodelabel"
)

// identity is the UUID of a GPU or the serial number of a board. Each identity can be on only one Node. Serial numbers
// are compared in the form of label values, because the driver spells them in different ways.
type identity struct {
	serial bool
	id     string
}

func serialIdentity(value string) identity { return identity{serial: true, id: value} }

func (c identity) String() string {
	if c.serial {
		return fmt.Sprintf("board serial %.96q", c.id)
	}
	return fmt.Sprintf("GPU %.96q", c.id)
}

func (c identity) duplicate() State {
	if c.serial {
		return DuplicateSerial
	}
	return DuplicateUUID
}

// identitiesOf returns the identities of the GPUs that a page reports as present. It omits lost GPUs, because a lost
// GPU may already be in another Node. If a board has two GPUs, the list contains the serial number of the board once.
func identitiesOf(page inventory.Page) []identity {
	var list []identity
	for _, g := range page.GPUs {
		if !g.Present {
			continue
		}
		list = append(list, identity{id: g.UUID})
		if serial := serialIdentity(nodelabel.SerialValue(g.Serial)); serial.id != "" && !slices.Contains(list, serial) {
			list = append(list, serial)
		}
	}
	return list
}

// holders contains the Nodes that report each identity. Nearly every identity is reported by only one Node. To save
// memory, the map first contains a single Node for each identity, and the map others contains additional Nodes.
type holders struct {
	first  map[identity]string
	others map[identity][]string
}

func newHolders() holders {
	return holders{first: make(map[identity]string), others: make(map[identity][]string)}
}

func (c holders) add(name string, list []identity) {
	for _, cl := range list {
		if _, taken := c.first[cl]; taken {
			c.others[cl] = append(c.others[cl], name)
			continue
		}
		c.first[cl] = name
	}
}

func (c holders) drop(name string, list []identity) {
	for _, cl := range list {
		rest := slices.DeleteFunc(c.nodesOf(cl), func(n string) bool { return n == name })
		delete(c.first, cl)
		delete(c.others, cl)
		for _, n := range rest {
			c.add(n, []identity{cl})
		}
	}
}

func (c holders) nodesOf(cl identity) []string {
	first, ok := c.first[cl]
	if !ok {
		return nil
	}
	return append([]string{first}, c.others[cl]...)
}
