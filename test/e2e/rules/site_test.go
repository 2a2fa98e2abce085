//go:build e2e

package rules_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/test/worlds"
)

// A span includes its start, but not its end.
type span = worlds.Span

// site describes a cluster with its nodes and programs, and the times of failures.
type site struct {
	length time.Duration
	nodes  []*node
	blind  []span // times in which Prometheus is down
	// A program that is not installed has no target.
	reconciler, archive, stateMetrics deployment
	sinkDown, rulesDown               []span
	behind                            []span // times in which the archive is ten hours behind

	*worlds.History
}

// deployment contains the spans in which a program is down or not installed.
type deployment struct{ off, uninstalled []span }

func (p deployment) up(at time.Duration) bool { return !in(at, p.off) && !in(at, p.uninstalled) }

// node describes a node with two GPUs, each used by a pod in a separate namespace.
type node struct {
	name       string
	exists     span // time in which the node exists in Kubernetes
	standalone bool // the node is a machine outside Kubernetes
	// In these spans, the machine is off, the node is not ready, and its targets are down.
	off               []span
	cordoned          []span
	exporterDown      []span // the exporter's container fails
	uninstalled       []span // there is no exporter and no target
	driverDown        []span
	kubeletDown       []span // the kubelet does not respond to the exporter
	recordDown        []span
	lost              []span          // the first GPU is lost
	boards            map[int][]board // boards by slot; the default is one board for the whole time
	overwritten       bool            // Prometheus overwrites the label namespace
	laboratory        bool            // all pods are in the namespace of the exporter
	idle              []span          // the first pod is idle
	xid               []span
	imbalance, second []span // the accounts do not add up to the energy of the GPU; a second instance has the same series
	// limit contains the spans in which the power limit is used to estimate the idle power of the first GPU. estimated
	// contains the spans in which this estimate affects a fifth of the energy.
	limit, estimated []span
}

type board struct {
	uuid string
	span
}

func in(at time.Duration, all ...[]span) bool {
	return slices.ContainsFunc(all, func(spans []span) bool {
		return slices.ContainsFunc(spans, func(s span) bool { return s.From <= at && at < s.To })
	})
}

// put writes the samples of a series while the series exists, and then a staleness marker.
func (s *site) put(name string, labels map[string]string, value func(at time.Duration) float64, exists func(at time.Duration) bool) {
	series, scraped := worlds.Series(name, labels), false
	for at := time.Duration(0); at <= s.length; at += s.Interval {
		switch is := exists(at); {
		case in(at, s.blind):
		case is:
			s.Add(series, at, value(at))
			scraped = true
		case scraped:
			s.End(series, at)
			scraped = false
		}
	}
}

func constant(v float64) func(time.Duration) float64 { return func(time.Duration) float64 { return v } }

func seconds(at time.Duration) float64 { return at.Seconds() }

func flag(spans ...[]span) func(time.Duration) float64 {
	return func(at time.Duration) float64 {
		if in(at, spans...) {
			return 1
		}
		return 0
	}
}

func no(of func(time.Duration) float64) func(time.Duration) float64 {
	return func(at time.Duration) float64 { return 1 - of(at) }
}

func (s *site) record() *worlds.History {
	s.History = worlds.New(time.Minute)
	for _, p := range []struct {
		job string
		deployment
	}{{"gpuledger-reconciler", s.reconciler}, {"gpuledger-archive", s.archive}} {
		s.put("up", map[string]string{"job": p.job, "instance": p.job}, no(flag(p.off)), func(at time.Duration) bool { return !in(at, p.uninstalled) })
	}
	s.put("gpuledger_reconciler_leading", nil, constant(1), s.reconciler.up)
	s.put("gpuledger_archive_sink_up", map[string]string{"sink": "postgres"}, no(flag(s.sinkDown)), s.archive.up)
	s.put("gpuledger_archive_hours_behind", map[string]string{"sink": "postgres"}, func(at time.Duration) float64 { return 10 * flag(s.behind)(at) }, s.archive.up)
	for _, n := range s.nodes {
		n.record(s)
	}
	anyNode := func(at time.Duration) bool {
		return !in(at, s.rulesDown) && slices.ContainsFunc(s.nodes, func(n *node) bool { return n.up(at-time.Hour) || n.up(at) })
	}
	for _, rule := range []string{"gpuledger:board_energy_joules:increase1h", "gpuledger:namespace_energy_joules:increase1h"} {
		s.put(rule, nil, constant(1), anyNode)
	}
	return s.History
}

func (n *node) there(at time.Duration) bool { return n.exists.From <= at && at < n.exists.To }

func (n *node) up(at time.Duration) bool {
	return n.there(at) && !in(at, n.off, n.exporterDown, n.uninstalled)
}

func (n *node) record(s *site) {
	labels := map[string]string{"node": n.name}
	with := func(more ...string) map[string]string { return worlds.With(labels, more...) }
	state := func(at time.Duration) bool { return n.there(at) && !n.standalone && s.stateMetrics.up(at) }
	s.put("kube_node_status_condition", with("condition", "Ready", "status", "true"), no(flag(n.off)), state)
	s.put("kube_node_spec_unschedulable", labels, flag(n.cordoned), state)
	s.put("kube_node_status_allocatable", with("resource", "nvidia_com_gpu"), constant(2), state)
	s.put("gpuledger_node_expected", labels, constant(1), func(at time.Duration) bool { return n.there(at) && !n.standalone && s.reconciler.up(at) })
	machine := "kubelet"
	if n.standalone {
		machine = "node-exporter"
	}
	s.put("up", with("job", machine, "instance", n.name+":10250"), no(flag(n.off)), n.there)
	for job, down := range map[string][]span{"gpuledger": nil, "gpuledger-record": n.recordDown} {
		s.put("up", with("job", job, "instance", n.name, "namespace", "gpu-operator"), no(flag(n.off, n.exporterDown, down)), func(at time.Duration) bool {
			return n.there(at) && !in(at, n.uninstalled)
		})
	}
	driver := func(at time.Duration) bool { return n.up(at) && !in(at, n.driverDown) }
	s.put("gpuledger_node_info", with("system_uuid", "machine-"+n.name), constant(1), n.up)
	s.put("gpuledger_stage_up", with("stage", "driver"), no(flag(n.driverDown)), n.up)
	s.put("gpuledger_stage_up", with("stage", "kubelet"), no(flag(n.kubeletDown)), n.up)
	s.put("gpuledger_stage_up", with("stage", "state"), constant(1), n.up)
	s.put("gpuledger_pci_gpus", labels, constant(2), n.up)
	s.put("gpuledger_driver_gpus", labels, constant(2), driver)
	for slot := 1; slot <= 2; slot++ {
		boards := n.boards[slot]
		if boards == nil {
			boards = []board{{fmt.Sprintf("GPU-%s-%d", n.name, slot), span{From: 0, To: s.length + 1}}}
		}
		for _, b := range boards {
			n.gpu(s, slot, b, driver)
		}
	}
}

func (n *node) gpu(s *site, slot int, b board, driver func(time.Duration) bool) {
	exists := func(at time.Duration) bool { return driver(at) && b.From <= at && at < b.To }
	gpu := map[string]string{"node": n.name, "UUID": b.uuid}
	place := worlds.With(gpu, "serial", "S-"+b.uuid, "pci_bus_id", fmt.Sprintf("00000000:%02X:00.0", slot), "chassis_serial", "C-"+n.name, "chassis_slot", fmt.Sprint(slot), "model", "NVIDIA H100 80GB HBM3")
	var lost []span
	if slot == 1 {
		lost = n.lost
	}
	s.put("gpuledger_gpu_info", place, constant(1), exists)
	s.put("gpuledger_gpu_present", gpu, no(flag(lost)), exists)
	s.put("gpuledger_gpu_last_reading_timestamp_seconds", gpu, seconds, exists)
	record := func(at time.Duration) bool { return exists(at) && !in(at, lost, n.recordDown) }
	s.put("gpuledger_placement_info", worlds.With(place, "system_uuid", "machine-"+n.name), constant(1), record)
	joules := func(at time.Duration) float64 { return 300 * at.Seconds() }
	s.put("gpuledger_gpu_energy_joules_total", gpu, joules, exists)
	estimated := 0.0
	s.put("gpuledger_gpu_estimated_energy_joules_total", gpu, func(at time.Duration) float64 {
		if slot == 1 && in(at, n.estimated) {
			estimated += 60 * 60
		}
		return estimated
	}, exists)
	s.put("gpuledger_gpu_idle_power_info", worlds.With(gpu, "source", "limit"), constant(1), func(at time.Duration) bool { return exists(at) && slot == 1 && in(at, n.limit) })
	s.put("gpuledger_gpu_idle_power_info", worlds.With(gpu, "source", "measured"), constant(1), func(at time.Duration) bool { return exists(at) && (slot != 1 || !in(at, n.limit)) })
	namespace := fmt.Sprint("team-", slot)
	if n.laboratory {
		namespace = "gpu-operator"
	}
	pod := worlds.With(gpu, "namespace", namespace, "pod", "train-"+b.uuid, "pod_uid", "u-"+b.uuid)
	owned := func(at time.Duration) float64 {
		if in(at, n.imbalance) {
			return joules(at) - 1000
		}
		return joules(at)
	}
	s.put("gpuledger_container_energy_joules_total", worlds.With(pod, "container", "main"), owned, exists)
	idle := 0.0
	s.put("gpuledger_container_idle_energy_joules_total", worlds.With(pod, "container", "main"), func(at time.Duration) float64 {
		if slot == 1 && in(at, n.idle) {
			idle += 300 * 60
		}
		return idle
	}, exists)
	if slot == 1 && n.xid != nil {
		s.put("gpuledger_gpu_xid_last_timestamp_seconds", worlds.With(gpu, "xid", "79"), constant(n.xid[0].From.Seconds()), func(at time.Duration) bool {
			return exists(at) && at >= n.xid[0].From
		})
	}
	if n.overwritten {
		pod = worlds.With(pod, "namespace", "gpu-operator")
	}
	s.put("gpuledger_namespace_info", map[string]string{"node": n.name, "pod_namespace": namespace}, constant(1), record)
	s.put("gpuledger_allocation_energy_joules_total", worlds.With(pod, "serial", place["serial"]), joules, record)
	s.put("gpuledger_board_energy_joules_total", worlds.With(gpu, "serial", place["serial"]), joules, record)
	if n.second != nil {
		s.put("gpuledger_board_energy_joules_total", worlds.With(gpu, "serial", place["serial"], "instance", "second"), joules, func(at time.Duration) bool { return record(at) && in(at, n.second) })
	}
}
