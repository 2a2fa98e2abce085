// Pictures runs simulated nodes and a real Prometheus with the rules of dashboards/rules, and runs
// a command with its URL: tools/dashboard-pictures draws the dashboards.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/fleet"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	o.programs.Flags()
	flag.StringVar(&o.listen, "listen", "127.0.0.1:9091", "`address` of Prometheus")
	flag.StringVar(&o.rules, "rules", "dashboards/rules/*.yaml", "`pattern` of the rule files")
	flag.DurationVar(&o.run, "run", 10*time.Minute, "`time` that the nodes run before the command is called")
	flag.Parse()
	o.command = flag.Args()
	if err := o.draw(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

type options struct {
	programs      fleet.Programs
	listen, rules string
	run           time.Duration
	command       []string // what to show of the nodes and the address of Prometheus are added
}

// nodes returns two trays of one chassis, between which a board is moved, a node that loses a GPU,
// and one with short jobs.
func nodes() []fleet.Node {
	return []fleet.Node{
		{Scenario: "gb200"},
		{Scenario: "gb200", Machine: simnode.Machine{Number: 1}},
		{Scenario: "lost", Machine: simnode.Machine{Number: 2}},
		{Scenario: "timeslice", Machine: simnode.Machine{Number: 3}},
		{Scenario: "jobs", Machine: simnode.Machine{Number: 4}},
	}
}

// draw starts everything, moves a board after a third of the time, and runs the command.
func (o options) draw(ctx context.Context) (err error) {
	if o.rules, err = filepath.Abs(o.rules); err != nil {
		return err
	}
	f, err := fleet.Open(o.programs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	nodes := nodes()
	booted, err := f.BootAll(ctx, nodes)
	if err != nil {
		return err
	}
	server := fleet.Prometheus{Name: "prometheus", Address: o.listen, Nodes: nodes, Scrape: 5 * time.Second, Rules: []string{o.rules}}
	if _, err := f.StartPrometheus(ctx, server); err != nil {
		return err
	}
	fmt.Printf("Prometheus: %s\n", server.URL())
	if err := sleep(ctx, o.run/3); err != nil {
		return err
	}
	if err := f.MoveBoard(ctx, nodes, booted); err != nil {
		return err
	}
	if err := sleep(ctx, o.run-o.run/3); err != nil {
		return err
	}
	if len(o.command) == 0 {
		<-ctx.Done()
		return nil
	}
	shown, err := show(nodes)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, o.command[0], append(append(o.command[1:], shown...), server.URL())...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	return command.Run()
}

// show returns the variables of the dashboards: the moved board, its chassis, and the node that
// lost a GPU.
func show(nodes []fleet.Node) ([]string, error) {
	tray, err := simnode.Lookup(nodes[0].Scenario)
	if err != nil {
		return nil, err
	}
	lost, err := nodes[2].Simulated()
	if err != nil {
		return nil, err
	}
	return []string{
		"gpu-life.serial=" + tray.GPUs[0].Serial,
		"chassis.chassis_serial=" + tray.GPUs[0].Place.Chassis,
		"incident.node=" + lost.Node,
	}, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
