package verdict

import (
	"fmt"
	"slices"

	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/internal/nodelabel"
)

// claim is a UUID or a board serial number that can be on one Node only. A serial number
// counts as the label says it: what differs in the driver's spelling only is the same.
type claim struct {
	serial bool
	id     string
}

func serialClaim(value string) claim { return claim{serial: true, id: value} }

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
		if serial := serialClaim(nodelabel.SerialValue(g.Serial)); serial.id != "" && !slices.Contains(list, serial) {
			list = append(list, serial)
		}
	}
	return list
}

// claims says which Nodes make each claim. Nearly always that is one, so others have a
// place of their own: there are two claims for every GPU of the cluster.
type claims struct {
	first  map[claim]string
	others map[claim][]string
}

func newClaims() claims {
	return claims{first: make(map[claim]string), others: make(map[claim][]string)}
}

func (c claims) add(name string, list []claim) {
	for _, cl := range list {
		if _, taken := c.first[cl]; taken {
			c.others[cl] = append(c.others[cl], name)
			continue
		}
		c.first[cl] = name
	}
}

func (c claims) drop(name string, list []claim) {
	for _, cl := range list {
		rest := slices.DeleteFunc(c.by(cl), func(n string) bool { return n == name })
		delete(c.first, cl)
		delete(c.others, cl)
		for _, n := range rest {
			c.add(n, []claim{cl})
		}
	}
}

// by returns the Nodes that make a claim.
func (c claims) by(cl claim) []string {
	first, ok := c.first[cl]
	if !ok {
		return nil
	}
	return append([]string{first}, c.others[cl]...)
}
