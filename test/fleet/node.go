package fleet

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/program"
)

// Node is a simulated node of a cluster.
type Node struct {
	Cluster  string
	Scenario string
	Machine  simnode.Machine
	Address  string   // address of the exporter, which does not change between boots
	Flags    []string // additional flags of the exporter
}

// Simulated returns the node's scenario, which contains the node's name and GPUs.
func (n Node) Simulated() (simnode.Scenario, error) {
	sc, err := simnode.Lookup(n.Scenario)
	if err != nil {
		return sc, err
	}
	return sc.On(n.Machine)
}

// URL returns the address of the exporter's metrics.
func (n Node) URL() string { return "http://" + n.Address + "/metrics" }

// Boot starts a node and waits until its exporter serves pages. Stop on the returned program shuts the node down. Kill
// cuts its power.
func (f *Fleet) Boot(ctx context.Context, n Node) (*program.Program, error) {
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
	if err := program.WaitFree(ctx, n.Address); err != nil {
		return nil, fmt.Errorf("exporter of the previous boot: %w", err)
	}
	p, err := f.Start(sc.Node, filepath.Join(f.programs.Bin, "simnode"), append(append(args, "--"), n.Flags...)...)
	if err != nil {
		return nil, err
	}
	return p, p.Ready(ctx, n.URL())
}

// BootAll assigns an address to each node and boots the nodes.
func (f *Fleet) BootAll(ctx context.Context, nodes []Node) (booted []*program.Program, err error) {
	for i := range nodes {
		if nodes[i].Address, err = program.FreeAddress(); err != nil {
			return nil, err
		}
		p, err := f.Boot(ctx, nodes[i])
		if err != nil {
			return nil, err
		}
		booted = append(booted, p)
	}
	return booted, nil
}

// MoveBoard moves the first board of the first node into the second slot of the second node, while both nodes are off.
// Both boards have two GPUs. The first node gets a new board.
func (f *Fleet) MoveBoard(ctx context.Context, nodes []Node, booted []*program.Program) (err error) {
	const spare = 9 // the machine from which the new board came
	nodes[0].Machine.Boards = map[int]simnode.Board{0: {Machine: spare, Position: 0}, 1: {Machine: spare, Position: 1}}
	nodes[1].Machine.Boards = map[int]simnode.Board{2: {Machine: 0, Position: 0}, 3: {Machine: 0, Position: 1}}
	for i := range 2 {
		booted[i].Stop()
	}
	for i := range 2 {
		nodes[i].Machine.Boot++
		if booted[i], err = f.Boot(ctx, nodes[i]); err != nil {
			return err
		}
	}
	return nil
}
