package verdict

import (
	"fmt"
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/inventory"
)

// claim is a UUID or a board serial number that can be on one Node only.
type claim struct {
	serial bool
	id     string
}

func (c claim) String() string {
	if c.serial {
		return fmt.Sprintf("board serial %.96q", c.id)
	}
	return fmt.Sprintf("GPU %.96q", c.id)
}

func (c claim) duplicate() State {
	if c.serial {
		return DuplicateSerial
	}
	return DuplicateUUID
}

// claimsOf returns what a page claims: the GPUs that are there. A lost one may be on
// another Node by now. Two dies of one board claim its serial number once.
func claimsOf(page inventory.Page) []claim {
	var list []claim
	for _, g := range page.GPUs {
		if !g.Present {
			continue
		}
		list = append(list, claim{id: g.UUID})
		if serial := (claim{serial: true, id: gpu.Identity(g.Serial)}); serial.id != "" && !slices.Contains(list, serial) {
			list = append(list, serial)
		}
	}
	return list
}

// claims says which Nodes make each claim. Nearly always that is one.
type claims map[claim][]string

func (c claims) add(name string, list []claim) {
	for _, cl := range list {
		c[cl] = append(c[cl], name)
	}
}

func (c claims) drop(name string, list []claim) {
	for _, cl := range list {
		if c[cl] = slices.DeleteFunc(c[cl], func(n string) bool { return n == name }); len(c[cl]) == 0 {
			delete(c, cl)
		}
	}
}
