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
		Help:   "Node that should have an exporter, with the reason.",
	},
	nodeMachine: {
		Family: familyNodes, Name: "gpuledger_node_machine_info", Type: gauge,
		Labels: []string{"node", "provider_id", "machine", "system_uuid"},
		Help:   "Machine of a Node that has or should have an exporter.",
	},
	nodeRefused: {
		Family: familyNodes, Name: "gpuledger_node_inventory_refused", Type: gauge,
		Labels: []string{"node", "state"},
		Help:   "Node that is not labelled because the inventory from its exporter is rejected.",
	},

	exporters: {
		Family: familyLabels, Name: "gpuledger_reconciler_exporters", Type: gauge,
		Labels: []string{"condition"},
		Help:   "Exporters found in the cluster.",
	},
	exporterStates: {
		Family: familyLabels, Name: "gpuledger_reconciler_nodes", Type: gauge,
		Labels: []string{"state"},
		Help:   "Nodes with an exporter that was read, by inventory state.",
	},
	changesHeld: {
		Family: familyLabels, Name: "gpuledger_reconciler_changes_held", Type: gauge,
		Help: "Nodes with a new identity that is not written yet because too many Nodes changed identity in the last hour.",
	},
	reads: {
		Family: familyLabels, Name: "gpuledger_reconciler_inventory_reads_total", Type: counter,
		Labels: []string{"result"},
		Help:   "Inventory requests to exporters.",
	},
	writes: {
		Family: familyLabels, Name: "gpuledger_reconciler_node_writes_total", Type: counter,
		Labels: []string{"kind"},
		Help:   "Number of writes to Nodes. It does not increase while no Node changes.",
	},
	writeFailures: {
		Family: familyLabels, Name: "gpuledger_reconciler_node_write_failures_total", Type: counter,
		Labels: []string{"failure"},
		Help:   "Number of failed writes to Nodes. The reconciler retries them with backoff.",
	},
}

// Catalogue returns every metric of this package.
func Catalogue() []metric.Metric { return slices.Clone(catalogue[:]) }

var labelCatalogue = []metric.Label{
	{Name: "node", Help: "Name of the Node."},
	{
		Name: "reason", Help: "Reason why a Node should have an exporter: GPUs among its allocatable resources, a ResourceSlice of GPUs, or a label named in `--expected-labels`.",
		Values: []string{reasonAllocatable, reasonResourceSlice, reasonLabel},
	},
	{Name: "provider_id", Help: "`spec.providerID` of the Node; empty on bare metal unless the distribution sets it."},
	{Name: "machine", Help: "Name of the machine at the cloud provider, from the provider ID (for AWS, GCP, Azure and OCI, and for IDs that are UUIDs or long numbers). For other providers, such as k3s and KubeVirt, the label contains the system UUID, because these providers reuse the names of Nodes and virtual machines."},
	{Name: "system_uuid", Help: "System UUID of the machine, as its kubelet reports it."},
	{
		Name: "condition", Help: "Whether an exporter is ready and responded to the last request; `unread` before the first request, and if the Node has no known GPU. A pod is `not_owned` and ignored if its owner reference names a DaemonSet in `--exporter.daemonsets`, but contains another UID.",
		Values: []string{conditionAnswering, conditionFailing, conditionUnread, conditionNotReady, conditionNotOwned}, Complete: true,
	},
	{Name: "state", Help: "State of an inventory. In the last six states, no labels are written.", Values: states(), Complete: true},
	{Name: "result", Help: "Result of the request.", Values: []string{"ok", "unreachable", "refused", "garbage"}, Complete: true},
	{
		Name: "kind", Help: "Kind of write: first labels of a Node, change of identity, repair after a foreign change, takeover of another manager's labels, condition.",
		Values: []string{kindFirst, kindChange, kindRepair, kindTakeOver, kindCondition}, Complete: true,
	},
	{Name: "failure", Help: "Reason for the failure, from the API server's response.", Values: []string{"forbidden", "conflict", "throttled", "error"}, Complete: true},
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

func valuesOf(label string) []string {
	i := slices.IndexFunc(labelCatalogue, func(l metric.Label) bool { return l.Name == label })
	return labelCatalogue[i].Values
}
