// Package gpuid converts the serial numbers of boards to records for gpuid (github.com/mchmarny/gpuid).
package gpuid

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Reading is a gpuid record: a serial number that was read on a node. The SQL view serials has the same rows.
type Reading struct {
	Cluster string    `json:"cluster"`
	Node    string    `json:"node"`
	Machine string    `json:"machine"`
	Source  string    `json:"source"`
	Chassis string    `json:"chassis"`
	GPU     string    `json:"gpu"`
	Time    time.Time `json:"time"`
}

// Record returns the fields of a reading in the order of gpuid's CSV files, which have no header.
func (r Reading) Record() []string {
	return []string{r.Cluster, r.Node, r.Machine, r.Source, r.Chassis, r.GPU, r.Time.Format(time.RFC3339Nano)}
}

// Node contains the readings of a node in an hour, one for each serial number.
type Node struct {
	Name     string
	Readings []Reading
}

// Nodes returns the readings of an hour by node, in the order of the rows.
func Nodes(h *table.Hour) (all []Node) {
	places := make(map[string]int)
	for i := range h.GPUs {
		g := &h.GPUs[i]
		if g.Serial == "" || g.Scrapes == 0 {
			continue
		}
		place, known := places[g.Node]
		if !known {
			place = len(all)
			places[g.Node] = place
			all = append(all, Node{Name: g.Node})
		}
		all[place].add(readingOf(h.Cluster, g))
	}
	return all
}

// add replaces an older reading with the same serial number. The unique key of gpuid would reject a second reading, and
// all GPUs of a board have the same serial number.
func (n *Node) add(r Reading) {
	i := slices.IndexFunc(n.Readings, func(other Reading) bool { return other.GPU == r.GPU })
	switch {
	case i < 0:
		n.Readings = append(n.Readings, r)
	case n.Readings[i].Time.Before(r.Time):
		n.Readings[i] = r
	}
}

// gpuid identifies a machine by the last part of the Node's provider id. If there is no provider id, readingOf uses the
// system UUID.
func readingOf(cluster string, g *table.GPU) Reading {
	return Reading{cluster, g.Node, cmp.Or(g.Machine, g.SystemUUID), "gpuledger", g.ChassisSerial, g.Serial, g.Last.UTC()}
}
