// Package past invents what Prometheus scraped from simulated nodes before they booted, so that a fleet has a history
// of a month. The past ends with the pods and boards on the nodes' pages, so the first scrape continues the series.
//
// In every minute, each value is a whole number of millijoules, milliseconds or events. Thus the accounts of a GPU add
// up to the energy of its board. All series begin and end at multiples of three minutes, where each series has a
// sample.
package past

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/fleet"
)

// Series is a series in the input format of tools/history/backfill. A knot consists of a time in minutes since 1970 and
// a value in thousandths. Between knots, the value changes linearly.
type Series struct {
	Labels map[string]string `json:"labels"`
	Knots  [][2]int64        `json:"knots"`
}

// Node describes a running node and its past.
type Node struct {
	fleet.Node
	// Record is the node's page /metrics/record. Metrics is its main page.
	Record, Metrics exposition.Page
	// Eras contains the earlier states of the node, earliest first.
	Eras   []Era
	Faults []Fault
}

// Era describes a node in the time before one of its earlier shutdowns.
type Era struct {
	End     time.Duration // time before the end of the past
	Machine simnode.Machine
}

// Fault is an XID error of a GPU. If Lost is set, the driver no longer lists the GPU after the error.
type Fault struct {
	At   time.Duration // time before the end of the past
	GPU  int           // position of the GPU
	XID  string
	Lost bool
}

const (
	// A node is down for this number of minutes between two eras.
	shutdown = 21
	// tick is the number of minutes between two samples.
	tick = 3
)

// ticks rounds a minute down to the time of the last sample.
func ticks(minutes int64) int64 { return minutes - minutes%tick }

// Of returns the past of some nodes between two times. The times must be full minutes.
func Of(nodes []Node, begin, end time.Time) (all []Series, err error) {
	b := &builder{begin: ticks(begin.Unix() / 60), end: ticks(end.Unix() / 60)}
	for i := range nodes {
		if err := b.node(&nodes[i], uint64(i)); err != nil {
			return nil, fmt.Errorf("node %d: %w", i, err)
		}
	}
	b.owners()
	return b.series, nil
}

type builder struct {
	begin, end int64 // first minute, and the minute after the last one
	series     []Series
	pods       map[pod]*span
}

type pod struct{ cluster, namespace, name, uid string }

// A span includes its last minute.
type span struct{ from, to int64 }

func (b *builder) add(metric string, labels map[string]string, knots ...[2]int64) {
	all := maps.Clone(labels)
	all["__name__"] = metric
	b.series = append(b.series, Series{all, knots})
}

func (b *builder) constant(metric string, labels map[string]string, s span, value int64) {
	b.add(metric, labels, [2]int64{s.from, value}, [2]int64{s.to, value})
}

func (b *builder) node(n *Node, seed uint64) error {
	now, err := n.Simulated()
	if err != nil {
		return err
	}
	target := map[string]string{"cluster": n.Cluster, "job": "gpuledger-record", "node": now.Node, "instance": now.Node}
	plan := newPlan(n, now, b, seed)
	from := b.begin
	for i, era := range append(slices.Clone(n.Eras), Era{Machine: n.Machine}) {
		to := ticks(b.end - int64(era.End/time.Minute))
		if i < len(n.Eras) {
			b.constant("up", target, span{to, to + shutdown - tick}, 0)
		}
		b.constant("up", target, span{from, to - tick}, 1000)
		state := n.Node
		state.Machine = era.Machine
		then, err := state.Simulated()
		if err != nil {
			return err
		}
		held := plan.era(span{from, to - tick}, i == len(n.Eras))
		for position := range then.GPUs {
			g := gpu{Node: n, builder: b, target: target, position: position, now: now.GPUs[position].UUID, uuid: then.GPUs[position].UUID, serial: then.GPUs[position].Serial}
			g.era(span{from, to - tick}, held[position])
		}
		from = to + shutdown
	}
	return nil
}

// owners adds the series of the reconciler and kube-state-metrics with the workloads and teams.
func (b *builder) owners() {
	namespaces := make(map[[2]string]bool)
	for p, s := range b.pods {
		kind, name := Workload(p.name)
		b.constant("gpuledger_pod_info", map[string]string{
			"cluster": p.cluster, "namespace": p.namespace, "pod": p.name, "pod_uid": p.uid,
			"workload_kind": kind, "workload_name": name, "workload_uid": p.namespace + "/" + name,
		}, *s, 1000)
		namespaces[[2]string{p.cluster, p.namespace}] = true
	}
	for of := range namespaces {
		b.constant("kube_namespace_labels", map[string]string{"cluster": of[0], "namespace": of[1], "label_team": Teams[of[1]]}, span{b.begin, b.end - tick}, 1000)
	}
}
