package collector

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Metric is one row of the catalogue.
type Metric struct {
	Family string // the heading in docs/metrics.md
	Name   string
	Type   prometheus.ValueType
	Unit   string // base unit, empty for a pure number
	Labels []string
	Help   string
	// Flag is the command-line flag that can hide the metric; empty if none can.
	Flag string
}

// Label describes a label, which means the same wherever it appears.
type Label struct {
	Name string
	Help string
	// Values is the closed list of values; nil if the list is open.
	Values []string
	// Complete is set if there is a series for every value from the start, so
	// that no increase is lost in a series that appears late.
	Complete bool
}

// The flags that hide metrics.
const (
	FlagGauges  = "--collector.gauges"
	FlagProcess = "--collector.process"
)

// The families.
const (
	familyIdentity  = "Identity of GPUs"
	familyNode      = "Identity of the node"
	familyEnergy    = "Energy of GPUs"
	familyContainer = "Containers"
	familyProcess   = "Processes"
	familyGauges    = "Gauges of GPUs"
	familyHealth    = "Health"
)

// metric indexes the catalogue.
type metric int

const (
	gpuInfo metric = iota
	gpuPresent
	gpuFabric

	nodeInfo
	driverInfo
	pciGPUs
	driverGPUs

	gpuEnergy
	gpuEnergySource
	unattributedEnergy
	retiredEnergy
	energyResets
	readingsRejected

	containerInfo
	containerReplicas
	containerEnergy
	containerIdleEnergy
	containerAllocated
	containerActive

	processInfo
	processEnergy
	processActive
	processSM
	processMemory
	processMemoryUsed
	processStart

	gpuPower
	gpuTemperature
	gpuUtilization
	gpuMemoryUsed
	gpuMemoryTotal
	gpuSMClock
	gpuMemoryClock

	xidErrors
	xidLast
	lastReading
	stageUp
	stageDuration
	stageFailures
	stageLastSuccess
	processCount

	numMetrics
)

// The labels that key the series of a GPU, of a container on a GPU, and of a
// process of a container.
var (
	ofGPU       = []string{"UUID"}
	ofContainer = []string{"UUID", "GPU_I_ID", "namespace", "pod", "pod_uid", "container"}
	ofProcess   = plus(ofContainer, "pid", "process")
)

func plus(labels []string, more ...string) []string { return slices.Concat(labels, more) }

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

var catalogue = [numMetrics]Metric{
	gpuInfo: {familyIdentity, "gpuledger_gpu_info", gauge, "",
		[]string{"UUID", "gpu", "pci_bus_id", "device", "model", "vendor", "serial", "board_part_number", "vbios_version",
			"chassis_serial", "chassis_slot", "tray_index", "host_id", "module_id"},
		"What a GPU is and where it sits, for every GPU seen since the node booted.", ""},
	gpuPresent: {familyIdentity, "gpuledger_gpu_present", gauge, "", ofGPU,
		"1 while the driver answers for the GPU, 0 after it was lost.", ""},
	gpuFabric: {familyIdentity, "gpuledger_gpu_fabric_info", gauge, "", plus(ofGPU, "cluster_uuid", "clique_id", "state"),
		"The NVLink domain of a GPU that is part of one.", ""},

	nodeInfo: {familyNode, "gpuledger_node_info", gauge, "",
		[]string{"node", "sys_vendor", "product_name", "product_serial", "board_serial", "board_asset_tag",
			"chassis_serial", "chassis_asset_tag", "system_uuid"},
		"The machine as its firmware (DMI) describes it.", ""},
	driverInfo: {familyNode, "gpuledger_driver_info", gauge, "",
		[]string{"source", "driver_version", "nvml_version", "dcgm_version"},
		"The software that gives the readings; absent while none answers.", ""},
	pciGPUs: {familyNode, "gpuledger_pci_gpus", gauge, "", nil,
		"GPUs on the PCI bus.", ""},
	driverGPUs: {familyNode, "gpuledger_driver_gpus", gauge, "", nil,
		"GPUs the driver answers for.", ""},

	gpuEnergy: {familyEnergy, "gpuledger_gpu_energy_joules_total", counter, "joules", ofGPU,
		"Energy of a GPU, from the differences of the board's counter.", ""},
	gpuEnergySource: {familyEnergy, "gpuledger_gpu_energy_source_info", gauge, "", plus(ofGPU, "source", "scope"),
		"Where the energy readings of a GPU come from and what they cover.", ""},
	unattributedEnergy: {familyEnergy, "gpuledger_unattributed_energy_joules_total", counter, "joules", plus(ofGPU, "reason"),
		"Energy of a GPU that no container is charged for.", ""},
	retiredEnergy: {familyEnergy, "gpuledger_retired_energy_joules_total", counter, "joules", ofGPU,
		"Energy charged to containers whose series have ended. It balances the books and is no part of any workload's rate.", ""},
	energyResets: {familyEnergy, "gpuledger_gpu_energy_resets_total", counter, "", ofGPU,
		"Confirmed resets of the board's energy counter.", ""},
	readingsRejected: {familyEnergy, "gpuledger_gpu_readings_rejected_total", counter, "", ofGPU,
		"Energy readings that were not plausible and were not used.", ""},

	containerInfo: {familyContainer, "gpuledger_container_gpu_info", gauge, "", plus(ofContainer, "resource", "claim", "sharing"),
		"A container that holds or uses a GPU now.", ""},
	containerReplicas: {familyContainer, "gpuledger_container_gpu_replicas", gauge, "", ofContainer,
		"Time-slicing or MPS replicas of the GPU that the container holds; 1 for a whole GPU.", ""},
	containerEnergy: {familyContainer, "gpuledger_container_energy_joules_total", counter, "joules", plus(ofContainer, "method"),
		"Energy charged to a container.", ""},
	containerIdleEnergy: {familyContainer, "gpuledger_container_idle_energy_joules_total", counter, "joules", ofContainer,
		"The part of the container's energy that was charged while nothing ran on the GPU.", ""},
	containerAllocated: {familyContainer, "gpuledger_container_gpu_allocated_seconds_total", counter, "seconds", ofContainer,
		"Time the container held the GPU.", ""},
	containerActive: {familyContainer, "gpuledger_container_gpu_active_seconds_total", counter, "seconds", ofContainer,
		"Time the container worked on the GPU.", ""},

	processInfo: {familyProcess, "gpuledger_process_info", gauge, "", plus(ofProcess, "container_id"),
		"A process that uses a GPU, or did until a short time ago.", FlagProcess},
	processEnergy: {familyProcess, "gpuledger_process_energy_joules_total", counter, "joules", plus(ofProcess, "method"),
		"The part of the container's energy that went to the process.", FlagProcess},
	processActive: {familyProcess, "gpuledger_process_active", gauge, "", ofProcess,
		"1 while the process is on the GPU, 0 after it left.", FlagProcess},
	processSM: {familyProcess, "gpuledger_process_sm_utilization_ratio", gauge, "ratio", ofProcess,
		"Part of the time in which a kernel of the process ran, over the samples of the last reading.", FlagProcess},
	processMemory: {familyProcess, "gpuledger_process_memory_utilization_ratio", gauge, "ratio", ofProcess,
		"Part of the time in which the process read or wrote GPU memory, over the samples of the last reading.", FlagProcess},
	processMemoryUsed: {familyProcess, "gpuledger_process_memory_used_bytes", gauge, "bytes", ofProcess,
		"GPU memory of the process.", FlagProcess},
	processStart: {familyProcess, "gpuledger_process_start_time_seconds", gauge, "seconds", ofProcess,
		"When the process started, in seconds since the Unix epoch.", FlagProcess},

	gpuPower: {familyGauges, "gpuledger_gpu_power_watts", gauge, "watts", ofGPU,
		"Power draw, averaged by the driver over a second or less.", FlagGauges},
	gpuTemperature: {familyGauges, "gpuledger_gpu_temperature_celsius", gauge, "celsius", ofGPU,
		"Temperature of the GPU.", FlagGauges},
	gpuUtilization: {familyGauges, "gpuledger_gpu_utilization_ratio", gauge, "ratio", ofGPU,
		"Part of the driver's last sample period in which a kernel ran.", FlagGauges},
	gpuMemoryUsed: {familyGauges, "gpuledger_gpu_memory_used_bytes", gauge, "bytes", ofGPU,
		"GPU memory in use.", FlagGauges},
	gpuMemoryTotal: {familyGauges, "gpuledger_gpu_memory_total_bytes", gauge, "bytes", ofGPU,
		"GPU memory installed.", FlagGauges},
	gpuSMClock: {familyGauges, "gpuledger_gpu_sm_clock_hertz", gauge, "hertz", ofGPU,
		"Clock of the streaming multiprocessors.", FlagGauges},
	gpuMemoryClock: {familyGauges, "gpuledger_gpu_memory_clock_hertz", gauge, "hertz", ofGPU,
		"Clock of the GPU memory.", FlagGauges},

	xidErrors: {familyHealth, "gpuledger_gpu_xid_errors_total", counter, "", ofGPU,
		"XID errors that the driver reported.", ""},
	xidLast: {familyHealth, "gpuledger_gpu_xid_last_timestamp_seconds", gauge, "seconds", plus(ofGPU, "xid"),
		"When the XID was last reported, in seconds since the Unix epoch.", ""},
	lastReading: {familyHealth, "gpuledger_gpu_last_reading_timestamp_seconds", gauge, "seconds", ofGPU,
		"When the GPU last answered, in seconds since the Unix epoch.", ""},
	stageUp: {familyHealth, "gpuledger_stage_up", gauge, "", []string{"stage"},
		"1 if the last attempt of the stage succeeded, 0 if it did not.", ""},
	stageDuration: {familyHealth, "gpuledger_stage_duration_seconds", gauge, "seconds", []string{"stage"},
		"Duration of the stage's last attempt.", ""},
	stageFailures: {familyHealth, "gpuledger_stage_failures_total", counter, "", []string{"stage"},
		"Attempts of the stage that did not succeed.", ""},
	stageLastSuccess: {familyHealth, "gpuledger_stage_last_success_timestamp_seconds", gauge, "seconds", []string{"stage"},
		"When the stage last succeeded, in seconds since the Unix epoch.", ""},
	processCount: {familyHealth, "gpuledger_processes", gauge, "", []string{"mapped"},
		"Processes on GPUs now; a process on two GPUs counts twice.", ""},
}

// Catalogue returns every metric, family by family.
func Catalogue() []Metric { return slices.Clone(catalogue[:]) }

// Labels returns every label of the catalogue's metrics.
func Labels() []Label { return slices.Clone(labelCatalogue) }

// Per names the thing that one more of makes the metric grow by [Metric.Series].
func (m Metric) Per() string {
	for _, key := range []struct{ label, per string }{
		{"pid", "process"}, {"container", "container and GPU"}, {"xid", "GPU and XID code seen"}, {"UUID", "GPU"}, {"stage", "stage"},
	} {
		if slices.Contains(m.Labels, key.label) {
			return key.per
		}
	}
	return "node"
}

// Series returns how many series the metric has at most for each of what
// [Metric.Per] names.
func (m Metric) Series() int {
	n := 1
	for _, l := range labelCatalogue {
		if l.Complete && slices.Contains(m.Labels, l.Name) {
			n *= len(l.Values)
		}
	}
	return n
}

// TypeName returns the type as the metrics page spells it.
func (m Metric) TypeName() string { return strings.ToLower(m.Type.ToDTO().String()) }

func methods() []string {
	var names []string
	for m := range gpu.NumMethods {
		names = append(names, m.String())
	}
	return names
}

func reasons() []string {
	var names []string
	for r := range gpu.NumReasons {
		names = append(names, r.String())
	}
	return names
}
