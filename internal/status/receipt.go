package status

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// WriteReceipt prints one line with the energy that is charged to a unit on all GPUs. The argument unit has the form
// manager/unit.
func WriteReceipt(w io.Writer, p *Page, unit string) error {
	var name string
	var sum, idle float64
	var boards []string
	until := p.Time
	for i := range p.GPUs {
		g := &p.GPUs[i]
		for k := range g.Containers {
			c := &g.Containers[k]
			if c.Energy == nil || c.Unit == "" || c.Manager+"/"+c.Unit != unit {
				continue
			}
			name = c.PodName()
			sum, idle = sum+c.Energy.Sum(), idle+c.Energy.Idle
			if board := g.board(); !slices.Contains(boards, board) {
				boards = append(boards, board)
			}
			if g.Energy.To.Before(until) {
				until = g.Energy.To
			}
		}
	}
	if name == "" {
		return errors.New("no unit of this name was charged energy; units are named as in gpuledger_unit_info: manager/unit, such as slurm/4711")
	}
	_, err := fmt.Fprintf(w, "%s: %s, %s idle, on %s: %s; until %s\n",
		name, amountIn(sum), percent(idle, sum), plural(len(boards), "board", "boards"), strings.Join(boards, ", "), moment(until))
	return err
}

func (g *GPU) board() string {
	if g.Serial == "" {
		return labelvalue.Printable(g.UUID)
	}
	return labelvalue.Printable(g.Serial)
}

func amountIn(joules float64) string { return unitOf(joules).amount(joules) }
