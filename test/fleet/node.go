package fleet

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

// Node is a simulated node of a cluster.
type Node struct {
	Cluster  string
	Scenario string
	Machine  simnode.Machine
	Address  string   // of the exporter; the same after each boot
	Flags    []string // further flags of the exporter
}

// Simulated returns what is simulated: the node's name and its GPUs among it.
func (n Node) Simulated() (simnode.Scenario, error) {
	sc, err := simnode.Lookup(n.Scenario)
	if err != nil {
		return sc, err
	}
	return sc.On(n.Machine)
}

// URL returns the address of the exporter's metrics.
func (n Node) URL() string { return "http://" + n.Address + "/metrics" }

// Boot starts a node and waits until its exporter serves. Stop powers it off, Kill
// cuts its power.
func (f *Fleet) Boot(ctx context.Context, n Node) (*Program, error) {
	sc, err := n.Simulated()
	if err != nil {
		return nil, err
	}
	args := []string{
		"--scenario=" + n.Scenario, "--number=" + strconv.Itoa(n.Machine.Number), "--boot=" + strconv.Itoa(n.Machine.Boot),
		"--dir=" + f.Path(fmt.Sprintf("%s.%d", sc.Node, n.Machine.Boot)), "--web.listen-address=" + n.Address,
	}
	for position, b := range n.Machine.Boards {
		args = append(args, fmt.Sprintf("--board=%d=%d.%d", position, b.Machine, b.Position))
	}
	p, err := f.Start(sc.Node, filepath.Join(f.programs.Bin, "simnode"), append(append(args, "--"), n.Flags...)...)
	if err != nil {
		return nil, err
	}
	return p, p.ready(ctx, n.URL())
}
