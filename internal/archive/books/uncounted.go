package books

import (
	"cmp"
	"context"
	"maps"
	"slices"

	sqldb "github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Uncounted is an upper bound of the energy that the records of a board lack, because of resets, rejected readings and
// gaps.
type Uncounted struct {
	Cluster, Node, UUID, Serial string
	Energy                      int64 // mJ
}

// uncounted contains the sum of the bounds for each board. The key omits the serial number, because it may become known
// late.
type uncounted map[[3]string]Uncounted

func (u uncounted) add(b Uncounted) {
	if b.Energy <= 0 {
		return
	}
	key := [3]string{b.Cluster, b.Node, b.UUID}
	known := u[key]
	b.Serial, b.Energy = cmp.Or(b.Serial, known.Serial), b.Energy+known.Energy
	u[key] = b
}

func (u uncounted) sorted() []Uncounted {
	return slices.SortedFunc(maps.Values(u), func(a, b Uncounted) int {
		return cmp.Or(cmp.Compare(b.Energy, a.Energy), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Node, b.Node), cmp.Compare(a.UUID, b.UUID))
	})
}

func (d *database) uncounted(ctx context.Context, of Query) (found []Uncounted, known bool, err error) {
	if d.lacks(table.GPUHours, "uncounted_mj") {
		return nil, false, nil
	}
	s := sqldb.SQL("select cluster, node, uuid, max(serial), sum(uncounted_mj) from {gpu_hours}").Join(of.where()).Add(" and uncounted_mj > 0 group by cluster, node, uuid")
	all := make(uncounted)
	err = d.rows(ctx, s, append(make([]table.Column, 4), table.Column{Type: table.Int}), func(row []table.Cell) error {
		all.add(Uncounted{row[0].Text, row[1].Text, row[2].Text, row[3].Text, row[4].Int})
		return nil
	})
	return all.sorted(), true, err
}
