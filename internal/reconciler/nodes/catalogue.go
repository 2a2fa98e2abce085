package nodes

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/metric"
	"github.com/gpuledger/gpuledger/internal/reconciler/validator"
)

const (
	familyNodes  = "Nodes with GPUs"
	familyLabels = "Health of the labels"
)

// metricID indexes the catalogue.
type metricID int

const (
	nodeExpected metricID = iota
	nodeMachine
	nodeRefused

	exporters
	exporterStates
	changesHeld
	reads
	writes
	writeFailures

	numMetrics
)

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

var catalogue = [numMetrics]metric.Metric{
	nodeExpected: {
		Family: familyNodes, Name: "gpuledger_node_expected", Type: gauge,
		Labels: []string{"node", "reason"},
		Help:   "A Node that should have an exporter, and why: the other side of the alert for nodes that have none.",
	},
	nodeMachine: {
		Family: familyNodes, Name: "gpuledger_node_machine_info", Type: gauge,
		Labels: []string{"node", "provider_id", "machine", "system_uuid"},
		Help:   "The machine behind a Node that has, or should have, an exporter.",
	},
	nodeRefused: {
		Family: familyNodes, Name: "gpuledger_node_inventory_refused", Type: gauge,
		Labels: []string{"node", "state"},
		Help:   "A Node that is not labelled because what its exporter says cannot be true.",
	},

	exporters: {
		Family: familyLabels, Name: "gpuledger_reconciler_exporters", Type: gauge,
		Labels: []string{"condition"},
		Help:   "Exporters found in the cluster.",
	},
	exporterStates: {
		Family: familyLabels, Name: "gpuledger_reconciler_nodes", Type: gauge,
		Labels: []string{"state"},
		Help:   "Nodes whose exporter was read, by what is thought of it.",
	},
	changesHeld: {
		Family: familyLabels, Name: "gpuledger_reconciler_changes_held", Type: gauge,
		Help: "Nodes whose new identity is not written because too many Nodes changed theirs in the last hour.",
	},
	reads: {
		Family: familyLabels, Name: "gpuledger_reconciler_inventory_reads_total", Type: counter,
		Labels: []string{"result"},
		Help:   "Readings of exporters.",
	},
	writes: {
		Family: familyLabels, Name: "gpuledger_reconciler_node_writes_total", Type: counter,
		Labels: []string{"kind"},
		Help:   "Writes of Nodes. A cluster in which nothing changes sees none.",
	},
	writeFailures: {
		Family: familyLabels, Name: "gpuledger_reconciler_node_write_failures_total", Type: counter,
		Labels: []string{"failure"},
		Help:   "Writes of Nodes that did not succeed. They are tried again, later each time.",
	},
}

// Catalogue returns every metric of this package.
func Catalogue() []metric.Metric { return slices.Clone(catalogue[:]) }

var labelCatalogue = []metric.Label{
	{Name: "node", Help: "Name of the Node."},
	{
		Name: "reason", Help: "Why a Node should have an exporter: GPUs among its allocatable resources, a ResourceSlice of GPUs, a label of `--expected-labels`.",
		Values: []string{reasonAllocatable, reasonResourceSlice, reasonLabel},
	},
	{Name: "provider_id", Help: "`spec.providerID` of the Node; empty on bare metal, or what the distribution writes there."},
	{Name: "machine", Help: "The provider's name of the machine, from the provider id (AWS, GCP, Azure, OCI and others); the system UUID where there is none, and with k3s, RKE2 and kind, which give the name of the Node."},
	{Name: "system_uuid", Help: "System UUID of the machine, as its kubelet reports it."},
	{
		Name: "condition", Help: "Whether an exporter is ready, and whether it answered the last request. A pod that names a DaemonSet of `--exporter.daemonsets` as its owner, without the DaemonSet's UID, is `not_owned` and ignored.",
		Values: []string{conditionAnswering, conditionFailing, conditionNotReady, conditionNotOwned}, Complete: true,
	},
	{Name: "state", Help: "What is thought of what an exporter says. Nothing is written in the last five.", Values: states(), Complete: true},
	{Name: "result", Help: "What the reading of an exporter gave.", Values: []string{"ok", "unreachable", "refused", "garbage"}, Complete: true},
	{
		Name: "kind", Help: "What a write did: label a Node for the first time, change its identity, repair what somebody else changed, take over another manager's labels.",
		Values: []string{kindFirst, kindChange, kindRepair, kindTakeOver}, Complete: true,
	},
	{Name: "failure", Help: "What the API server said to a write.", Values: []string{"forbidden", "conflict", "throttled", "error"}, Complete: true},
}

// Labels returns every label of the catalogue's metrics.
func Labels() []metric.Label { return slices.Clone(labelCatalogue) }

func states() []string {
	var names []string
	for _, s := range validator.States {
		names = append(names, string(s))
	}
	return names
}

// valuesOf returns the closed list of a label's values.
func valuesOf(label string) []string {
	i := slices.IndexFunc(labelCatalogue, func(l metric.Label) bool { return l.Name == label })
	return labelCatalogue[i].Values
}
