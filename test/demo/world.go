package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/past"
)

const (
	day = 24 * time.Hour
	// The nodes run for this time before their pages are read to create the past.
	settled = 12 * time.Second
)

// world returns the nodes: two trays of one chassis, a machine with short jobs and a Slurm node. A board of the third
// machine was lost and replaced. Later, another board was moved from the fourth machine to the third.
func world() []past.Node {
	var nodes [4]past.Node
	nodes[0].Cluster, nodes[0].Scenario = "east", "gb200"
	nodes[0].Eras = []past.Era{{End: 10*day + 2*time.Hour}}
	nodes[1].Cluster, nodes[1].Scenario, nodes[1].Machine.Number = "east", "gb200", 1
	nodes[1].Faults = []past.Fault{{At: 4*day + 5*time.Hour, GPU: 3, XID: "31"}}
	const replaced, moved = 20*day + time.Hour, 3*day + 2*time.Hour + 20*time.Minute
	nodes[2].Cluster, nodes[2].Scenario = "west", "jobs"
	nodes[2].Machine = simnode.Machine{Number: 2, Boards: map[int]simnode.Board{2: {Machine: 3, Position: 2}}}
	nodes[2].Eras = []past.Era{
		{End: replaced, Machine: simnode.Machine{Number: 2, Boards: map[int]simnode.Board{1: {Machine: 8, Position: 1}}}},
		{End: moved, Machine: simnode.Machine{Number: 2}},
	}
	nodes[2].Faults = []past.Fault{{At: replaced + 9*time.Hour, GPU: 1, XID: "79", Lost: true}}
	nodes[3].Cluster, nodes[3].Scenario = "west", "slurm"
	nodes[3].Machine = simnode.Machine{Number: 3, Boards: map[int]simnode.Board{2: {Machine: 7, Position: 2}}}
	nodes[3].Eras = []past.Era{{End: moved, Machine: simnode.Machine{Number: 3}}}
	return nodes[:]
}

// begin returns the time at which the past begins. It is earlier than the first full month, because the rules need an
// hour before the month.
func begin(now time.Time) time.Time {
	now = now.UTC()
	return time.Date(now.Year(), now.Month()-1, 1, 0, 0, 0, 0, time.UTC).Add(-2 * time.Hour)
}

// load writes the past of the nodes into the folder of a server that is not started.
func (d *demo) load(ctx context.Context, server string, booted time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(booted.Add(settled))):
	}
	nodes := world()
	for i, n := range d.nodes {
		nodes[i].Node = n
		var err error
		if nodes[i].Metrics, err = exposition.Scrape(ctx, n.URL()); err != nil {
			return err
		}
		if nodes[i].Record, err = exposition.Scrape(ctx, n.URL()+"/record"); err != nil {
			return err
		}
	}
	all, err := past.Of(nodes, begin(booted), booted)
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, s := range all {
		if err := encoder.Encode(s); err != nil {
			return err
		}
	}
	command := exec.CommandContext(ctx, filepath.Join(d.programs.History, "backfill"),
		"--out="+d.fleet.Path(server), "--rules="+d.rules, fmt.Sprintf("--now=%d", booted.Unix()/60))
	command.Stdin = &lines
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", command.Args, err, out)
	}
	return nil
}

// owners writes rules for the series that the reconciler and kube-state-metrics serve in a cluster, and returns the
// path of the file.
func (d *demo) owners() (string, error) {
	set := func(expr, label, value, from, pattern string) string {
		return fmt.Sprintf("label_replace(%s, %q, %q, %q, %q)", expr, label, value, from, pattern)
	}
	pods := set(`group by (cluster, namespace, pod, pod_uid) (gpuledger_allocation_gpu_seconds_total)`, "workload_name", "$1", "pod", past.PodName)
	pods = set(set(pods, "workload_kind", "Job", "workload_name", ".*"), "workload_kind", "Deployment", "workload_name", past.Services)
	pods = fmt.Sprintf(`label_join(%s, "workload_uid", "/", "namespace", "workload_name")`, pods)
	namespaces := `group by (cluster, namespace) (gpuledger_allocation_gpu_seconds_total)`
	for namespace, team := range past.Teams {
		namespaces = set(namespaces, "label_team", team, "namespace", namespace)
	}
	rules, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "demo", "rules": []any{
		map[string]string{"record": "gpuledger_pod_info", "expr": pods}, map[string]string{"record": "kube_namespace_labels", "expr": namespaces},
	}}}})
	file := d.fleet.Path("owners.yaml")
	return file, errors.Join(err, os.WriteFile(file, rules, 0o600))
}

// settings returns the path of the configuration of gpuledger-archive. It also writes files with prices and RMAs.
func (d *demo) settings(store string) (string, error) {
	board := func(position, machine int) string {
		sc, _ := simnode.Lookup("jobs")                           // no error, because the node already runs this scenario
		at, _ := sc.On(simnode.Machine{Number: machine, Boot: 0}) // no error, because the node already booted on a machine
		return at.GPUs[position].Serial
	}
	file := d.fleet.Path("config.yaml")
	for name, text := range map[string]string{
		d.fleet.Path("prices.csv"): "from,until,cluster,model,per_kwh,per_gpu_hour,currency\n,,,,0.25,1.50,EUR\n,,,NVIDIA GB200,0.25,3.50,EUR\n",
		d.fleet.Path("rma.csv"):    fmt.Sprintf("old_serial,new_serial,rma\n%s,%s,RMA-1042\n", board(1, 8), board(1, 2)),
		file:                       strings.Join([]string{"store.url: " + store, "prices: " + d.fleet.Path("prices.csv"), "rma: " + d.fleet.Path("rma.csv"), "pue: 1.3", ""}, "\n"),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	return file, nil
}
