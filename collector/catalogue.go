package collector

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/metric"
)

const (
	familyIdentity  = "Identity of GPUs"
	familyNode      = "Identity of the node"
	familyEnergy    = "Energy of GPUs"
	familyContainer = "Containers"
	familyProcess   = "Processes"
	familyUnit      = "Units"
	familyGauges    = "Gauges of GPUs"
	familyHealth    = "Health of GPUs"
	familyLinks     = "Errors, links and limits of GPUs"
	familyDetails   = "Details of the health of GPUs"
	familyProfile   = "Activity of the parts of GPUs"
	familyStages    = "Stages"
	familyMapping   = "Mapping of processes"
	familyPlacement = "Placement"
	familyPods      = "Allocations"
	familyUnits     = "Allocations of units"
	familyBoards    = "Boards"
)

type metricID uint16

const (
	gpuInfo metricID = iota
	gpuPresent
	gpuFabric
	fabricHealthy
	fabricProblem
	migInfo

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
	unsampledSeconds
	uncountedEnergy
	estimatedEnergy
	throttledEnergy
	throttledSeconds
	gpuIdlePower
	gpuIdlePowerInfo

	containerInfo
	containerReplicas
	containerEnergy
	containerIdleEnergy
	containerAllocated
	containerActive
	containerBusy
	containerThrottledEnergy
	containerThrottledSeconds
	containerProfiled
	containerTensor
	containerDRAM

	processInfo
	processEnergy
	processActive
	processSM
	processMemory
	processMemoryUsed
	processStart

	unitInfo
	unitGPUInfo
	unitEnergy
	unitIdleEnergy
	unitAllocated
	unitActive
	unitBusy
	unitThrottledEnergy
	unitThrottledSeconds
	unitProfiled
	unitTensor
	unitDRAM
	containerUnitEnergy
	unitProcessInfo
	unitProcessEnergy
	unitProcessActive
	unitProcessSM
	unitProcessMemory
	unitProcessMemoryUsed
	unitProcessStart

	// firstGauge is the first metric from [gpu.GaugeInfos]; the other gauges follow in the order of
	// this table.
	firstGauge
)

const (
	// firstHealth is the first metric from [gpu.HealthInfos]; the other health metrics follow in the
	// order of this table.
	firstHealth = firstGauge + metricID(gpu.NumGauges)
	// firstActivity is the first metric from [gpu.ActivityInfos]; the other activities follow in the
	// order of this table.
	firstActivity = firstHealth + metricID(gpu.NumHealthMetrics)
	// firstInstanceActivity is the first metric for the activities of MIG instances. The other metrics
	// for MIG instances follow in the order of [gpu.ActivityInfos].
	firstInstanceActivity = firstActivity + metricID(gpu.NumActivities)
	xidErrors             = firstInstanceActivity + metricID(gpu.NumActivities) + iota - 3
	xidLast
	lastReading
	memorySource
	rowRemapPending
	rowRemapFailure
	remappedRows
	gpuRecovery
	rasErrors
	switchErrors
	stageUp
	stageDuration
	stageFailures
	stageOversized
	stageLastSuccess
	processCount
	gpuStrays
	gpuUnused

	placement
	allocationEnergy
	allocationExclusive
	allocationIdle
	allocationEstimated
	allocationSeconds
	allocationActive
	allocationBusy
	allocationThrottledEnergy
	allocationThrottledSeconds
	allocationProfiled
	allocationTensor
	allocationDRAM
	allocationGPUTime
	allocationCreated
	podNamespace
	allocationUnitEnergy
	unitAllocationEnergy
	unitAllocationExclusive
	unitAllocationIdle
	unitAllocationEstimated
	unitAllocationSeconds
	unitAllocationActive
	unitAllocationBusy
	unitAllocationThrottledEnergy
	unitAllocationThrottledSeconds
	unitAllocationProfiled
	unitAllocationTensor
	unitAllocationDRAM
	unitAllocationGPUTime
	unitAllocationCreated
	boardEnergy
	boardUnattributed
	boardEnergySource
	boardEnergyResets
	boardUncounted
	boardEstimated
	boardCreated
	boardXIDErrors
	boardLosses
	boardRemappedRows
	boardECCErrors
	boardRASErrors
	boardRetiredPages
	boardPCIeReplays
	boardNVLinkErrors
	boardThermal
	boardPowerBrake
	boardLowBanks
	boardRecovery

	numMetrics
)

// Each list contains the names of the labels that identify one series. For example, ofGPU contains the labels of a
// series about a GPU.
var (
	ofGPU         = []string{"UUID"}
	ofContainer   = []string{"UUID", "GPU_I_ID", "namespace", "pod", "pod_uid", "container"}
	ofProcess     = plus(ofContainer, "pid", "process")
	ofUnit        = []string{"UUID", "GPU_I_ID", "manager", "unit"}
	ofUnitProcess = plus(ofUnit, "pid", "process")
	// ofAllocation includes the serial number, so that queries need no join years later.
	ofBoard          = []string{"node", "UUID", "serial"}
	ofAllocation     = []string{"node", "UUID", "serial", "chassis_serial", "namespace", "pod", "pod_uid"}
	ofUnitAllocation = []string{"node", "UUID", "serial", "chassis_serial", "manager", "unit"}
)

func plus(labels []string, more ...string) []string { return slices.Concat(labels, more) }

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

var catalogue = withTables([numMetrics]metric.Metric{
	gpuInfo: {
		Family: familyIdentity, Name: "gpuledger_gpu_info", Type: gauge,
		Labels: []string{
			"UUID", "gpu", "pci_bus_id", "device", "model", "vendor", "serial", "board_part_number", "vbios_version",
			"chassis_serial", "chassis_slot", "tray_index", "host_id", "module_id",
		},
		Help: "Identity and placement of each GPU that was present since the node booted.",
	},
	gpuPresent: {
		Family: familyIdentity, Name: "gpuledger_gpu_present", Type: gauge,
		Labels: ofGPU,
		Help:   "1 while the driver lists the GPU, 0 after it was lost.",
	},
	gpuFabric: {
		Family: familyIdentity, Name: "gpuledger_gpu_fabric_info", Type: gauge,
		Labels: plus(ofGPU, "cluster_uuid", "clique_id", "state"),
		Help:   "NVLink domain or XGMI hive of a GPU.",
	},
	fabricHealthy: {
		Family: familyIdentity, Name: "gpuledger_gpu_fabric_healthy", Type: gauge,
		Labels: ofGPU,
		Help:   "1 while the driver reports no problem of the GPU's NVLink fabric; absent if the driver does not report the health of the fabric.",
	},
	fabricProblem: {
		Family: familyIdentity, Name: "gpuledger_gpu_fabric_problem", Type: gauge,
		Labels: plus(ofGPU, "problem", "cause"),
		Help:   "1 while the driver reports that the GPU's NVLink fabric has the problem in the label problem; otherwise absent.",
	},
	migInfo: {
		Family: familyIdentity, Name: "gpuledger_mig_info", Type: gauge,
		Labels: plus(ofGPU, "mig_uuid", "GPU_I_ID", "GPU_I_PROFILE", "slices"),
		Help:   "MIG device of a GPU in MIG mode, or partition of an AMD GPU.",
	},

	nodeInfo: {
		Family: familyNode, Name: "gpuledger_node_info", Type: gauge,
		Labels: []string{
			"node", "sys_vendor", "product_name", "product_serial", "board_serial", "board_asset_tag",
			"chassis_serial", "chassis_asset_tag", "system_uuid",
		},
		Help: "Identity of the machine according to its firmware (DMI).",
	},
	driverInfo: {
		Family: familyNode, Name: "gpuledger_driver_info", Type: gauge,
		Labels: []string{"source", "driver_version", "nvml_version", "dcgm_version", "dcgm_library_version"},
		Help:   "Driver and libraries that provide the readings; absent while no driver responds.",
	},
	pciGPUs: {
		Family: familyNode, Name: "gpuledger_pci_gpus", Type: gauge,
		Help: "GPUs on the PCI bus that the driver should list. Virtual functions and devices of other drivers are not counted.",
	},
	driverGPUs: {
		Family: familyNode, Name: "gpuledger_driver_gpus", Type: gauge,
		Help: "GPUs that the driver lists.",
	},

	gpuEnergy: {
		Family: familyEnergy, Name: "gpuledger_gpu_energy_joules_total", Type: counter, Unit: "joules",
		Labels: ofGPU,
		Help:   "Energy that a GPU used, computed from the differences between its energy readings.",
	},
	gpuEnergySource: {
		Family: familyEnergy, Name: "gpuledger_gpu_energy_source_info", Type: gauge,
		Labels: plus(ofGPU, "source", "scope"),
		Help:   "Source and scope of a GPU's energy readings.",
	},
	unattributedEnergy: {
		Family: familyEnergy, Name: "gpuledger_unattributed_energy_joules_total", Type: counter, Unit: "joules",
		Labels: plus(ofGPU, "reason"),
		Help:   "GPU energy that is charged to no container.",
	},
	retiredEnergy: {
		Family: familyEnergy, Name: "gpuledger_retired_energy_joules_total", Type: counter, Unit: "joules",
		Labels: ofGPU,
		Help:   "Energy charged to containers whose series have ended. Add it when you compare charges with the GPU's energy; omit it from workload rates.",
	},
	energyResets: {
		Family: familyEnergy, Name: "gpuledger_gpu_energy_resets_total", Type: counter,
		Labels: ofGPU,
		Help:   "Confirmed resets of the board's energy counter.",
	},
	readingsRejected: {
		Family: familyEnergy, Name: "gpuledger_gpu_readings_rejected_total", Type: counter,
		Labels: ofGPU,
		Help:   "Energy readings that were ignored because they were implausible.",
	},
	unsampledSeconds: {
		Family: familyEnergy, Name: "gpuledger_gpu_unsampled_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofGPU,
		Help:   "Time without utilisation samples because the exporter read the driver too late. The driver keeps samples for only ten seconds.",
	},
	uncountedEnergy: {
		Family: familyEnergy, Name: "gpuledger_gpu_uncounted_energy_bound_joules_total", Type: counter, Unit: "joules",
		Labels: ofGPU,
		Help:   "Upper bound of the energy that a GPU used and that gpuledger_gpu_energy_joules_total omits because of resets, rejected readings and gaps.",
	},
	estimatedEnergy: {
		Family: familyEnergy, Name: "gpuledger_gpu_estimated_energy_joules_total", Type: counter, Unit: "joules",
		Labels: ofGPU,
		Help:   "Part of a GPU's energy that was divided among several owners based on an estimated idle power.",
	},

	throttledEnergy: {
		Family: familyEnergy, Name: "gpuledger_gpu_throttled_joules_total", Type: counter, Unit: "joules",
		Labels: plus(ofGPU, "throttle"),
		Help:   "Part of the GPU's energy that was used while the driver reduced the clocks because of heat or the power brake; absent until the driver first reduces the clocks for this reason. Heat and the power brake may apply at the same time.",
	},
	throttledSeconds: {
		Family: familyEnergy, Name: "gpuledger_gpu_throttled_seconds_total", Type: counter, Unit: "seconds",
		Labels: plus(ofGPU, "throttle"),
		Help:   "Time in which the driver reduced the GPU's clocks because of heat or the power brake; absent until the driver first reduces the clocks for this reason. Heat and the power brake may apply at the same time.",
	},
	gpuIdlePower: {
		Family: familyEnergy, Name: "gpuledger_gpu_idle_power_watts", Type: gauge, Unit: "watts",
		Labels: ofGPU,
		Help:   "Measured or estimated power of a GPU with open contexts and no work. It is used to divide shared energy.",
	},
	gpuIdlePowerInfo: {
		Family: familyEnergy, Name: "gpuledger_gpu_idle_power_info", Type: gauge,
		Labels: plus(ofGPU, "source"),
		Help:   "Source of the idle power: measured, configured, stored, peer or limit. All except measured are estimates.",
	},

	containerInfo: {
		Family: familyContainer, Name: "gpuledger_container_gpu_info", Type: gauge,
		Labels: plus(ofContainer, "resource", "claim", "sharing"),
		Help:   "A container that holds or uses a GPU now.",
	},
	containerReplicas: {
		Family: familyContainer, Name: "gpuledger_container_gpu_replicas", Type: gauge,
		Labels: ofContainer,
		Help:   "Time-slicing or MPS replicas of the GPU that the container holds; 1 for a whole GPU.",
	},
	containerEnergy: {
		Family: familyContainer, Name: "gpuledger_container_energy_joules_total", Type: counter, Unit: "joules",
		Labels: plus(ofContainer, "method"),
		Help:   "Energy charged to a container.",
	},
	containerIdleEnergy: {
		Family: familyContainer, Name: "gpuledger_container_idle_energy_joules_total", Type: counter, Unit: "joules",
		Labels: ofContainer,
		Help:   "The container's share of the GPU's idle energy.",
	},
	containerAllocated: {
		Family: familyContainer, Name: "gpuledger_container_gpu_allocated_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofContainer,
		Help:   "Time for which the container held the GPU.",
	},
	containerActive: {
		Family: familyContainer, Name: "gpuledger_container_gpu_active_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofContainer,
		Help:   "Time in which the container worked on the GPU; 0 if the driver does not report activity per process, as for MPS clients and for MIG instances without GPM.",
	},
	containerBusy: {
		Family: familyContainer, Name: "gpuledger_container_gpu_busy_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofContainer,
		Help:   "Time in which kernels of the container ran, according to the driver's samples. It never exceeds the active time, because the active time counts whole intervals.",
	},

	containerThrottledEnergy: {
		Family: familyContainer, Name: "gpuledger_container_gpu_throttled_joules_total", Type: counter, Unit: "joules",
		Labels: plus(ofContainer, "throttle"),
		Help:   "Part of the container's energy that was used while the driver reduced the clocks because of heat or the power brake; absent until the driver first reduces the clocks for this reason. Heat and the power brake may apply at the same time.",
	},
	containerThrottledSeconds: {
		Family: familyContainer, Name: "gpuledger_container_gpu_throttled_seconds_total", Type: counter, Unit: "seconds",
		Labels: plus(ofContainer, "throttle"),
		Help:   "Part of the container's time in which the driver reduced the clocks because of heat or the power brake; absent until the driver first reduces the clocks for this reason. Heat and the power brake may apply at the same time.",
	},
	containerProfiled: {
		Family: familyContainer, Name: "gpuledger_container_gpu_profiled_seconds_total", Type: counter, Unit: "seconds", Flag: FlagProfiling,
		Labels: ofContainer,
		Help:   "Time for which the container was alone on the GPU or MIG instance and the exporter measured the activity of the GPU's parts; absent if this activity cannot be measured.",
	},
	containerTensor: {
		Family: familyContainer, Name: "gpuledger_container_gpu_tensor_active_seconds_total", Type: counter, Unit: "seconds", Flag: FlagProfiling,
		Labels: ofContainer,
		Help:   "Time in which the tensor cores were active while the container was alone on the GPU or MIG instance; absent without gpuledger_container_gpu_profiled_seconds_total.",
	},
	containerDRAM: {
		Family: familyContainer, Name: "gpuledger_container_gpu_dram_active_seconds_total", Type: counter, Unit: "seconds", Flag: FlagProfiling,
		Labels: ofContainer,
		Help:   "Time for which the container was alone on the GPU or MIG instance, weighted by the fraction of the memory bandwidth in use; absent without gpuledger_container_gpu_profiled_seconds_total.",
	},
	processInfo: {
		Family: familyProcess, Name: "gpuledger_process_info", Type: gauge, Flag: FlagProcess,
		Labels: plus(ofProcess, "container_id"),
		Help:   "Process that uses a GPU or ended recently.",
	},
	processEnergy: {
		Family: familyProcess, Name: "gpuledger_process_energy_joules_total", Type: counter, Unit: "joules", Flag: FlagProcess,
		Labels: plus(ofProcess, "method"),
		Help:   "Part of the container's energy that is charged to the process.",
	},
	processActive: {
		Family: familyProcess, Name: "gpuledger_process_active", Type: gauge, Flag: FlagProcess,
		Labels: ofProcess,
		Help:   "1 while the process uses the GPU, then 0.",
	},
	processSM: {
		Family: familyProcess, Name: "gpuledger_process_sm_utilization_ratio", Type: gauge, Unit: "ratio", Flag: FlagProcess,
		Labels: ofProcess,
		Help:   "Fraction of time in which a kernel of the process ran, averaged over the samples of the last reading.",
	},
	processMemory: {
		Family: familyProcess, Name: "gpuledger_process_memory_utilization_ratio", Type: gauge, Unit: "ratio", Flag: FlagProcess,
		Labels: ofProcess,
		Help:   "Fraction of time in which the process read or wrote GPU memory, averaged over the samples of the last reading.",
	},
	processMemoryUsed: {
		Family: familyProcess, Name: "gpuledger_process_memory_used_bytes", Type: gauge, Unit: "bytes", Flag: FlagProcess,
		Labels: ofProcess,
		Help:   "GPU memory of the process.",
	},
	processStart: {
		Family: familyProcess, Name: "gpuledger_process_start_time_seconds", Type: gauge, Unit: "seconds", Flag: FlagProcess,
		Labels: ofProcess,
		Help:   "Start time of the process, in seconds since the Unix epoch.",
	},

	unitInfo: {
		Family: familyUnit, Name: "gpuledger_unit_info", Type: gauge,
		Labels: []string{"manager", "unit", "sluid", "user", "uid", "account", "partition", "cluster_name", "job_name", "array_element", "container_id", "image", "project"},
		Help:   "Unit that has series: a job, container, service or user outside pods. Some labels are empty until their values are known.",
	},
	unitGPUInfo: {
		Family: familyUnit, Name: "gpuledger_unit_gpu_info", Type: gauge,
		Labels: plus(ofUnit, "sharing"),
		Help:   "A unit that holds or uses a GPU now.",
	},
	unitEnergy: {
		Family: familyUnit, Name: "gpuledger_unit_energy_joules_total", Type: counter, Unit: "joules",
		Labels: plus(ofUnit, "method"),
		Help:   "Energy charged to a unit.",
	},
	unitIdleEnergy: {
		Family: familyUnit, Name: "gpuledger_unit_idle_energy_joules_total", Type: counter, Unit: "joules",
		Labels: ofUnit,
		Help:   "The unit's share of the GPU's idle energy.",
	},
	unitAllocated: {
		Family: familyUnit, Name: "gpuledger_unit_gpu_allocated_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofUnit,
		Help:   "Time for which the unit held the GPU; exported only for managers that record allocations on disk.",
	},
	unitActive: {
		Family: familyUnit, Name: "gpuledger_unit_gpu_active_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofUnit,
		Help:   "Time in which the unit worked on the GPU; 0 if the driver does not report activity per process.",
	},
	unitBusy: {
		Family: familyUnit, Name: "gpuledger_unit_gpu_busy_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofUnit,
		Help:   "Time in which kernels of the unit ran, according to the driver's samples. It never exceeds the active time, because the active time counts whole intervals.",
	},
	unitThrottledEnergy: {
		Family: familyUnit, Name: "gpuledger_unit_gpu_throttled_joules_total", Type: counter, Unit: "joules",
		Labels: plus(ofUnit, "throttle"),
		Help:   "Part of the unit's energy that was used while the driver reduced the clocks because of heat or the power brake; absent until the driver first reduces the clocks for this reason. Heat and the power brake may apply at the same time.",
	},
	unitThrottledSeconds: {
		Family: familyUnit, Name: "gpuledger_unit_gpu_throttled_seconds_total", Type: counter, Unit: "seconds",
		Labels: plus(ofUnit, "throttle"),
		Help:   "Part of the unit's time in which the driver reduced the clocks because of heat or the power brake; absent until the driver first reduces the clocks for this reason. Heat and the power brake may apply at the same time.",
	},
	unitProfiled: {
		Family: familyUnit, Name: "gpuledger_unit_gpu_profiled_seconds_total", Type: counter, Unit: "seconds", Flag: FlagProfiling,
		Labels: ofUnit,
		Help:   "Time for which the unit was alone on the GPU or MIG instance and the exporter measured the activity of the GPU's parts; absent if this activity cannot be measured.",
	},
	unitTensor: {
		Family: familyUnit, Name: "gpuledger_unit_gpu_tensor_active_seconds_total", Type: counter, Unit: "seconds", Flag: FlagProfiling,
		Labels: ofUnit,
		Help:   "Time in which the tensor cores were active while the unit was alone on the GPU or MIG instance; absent without gpuledger_unit_gpu_profiled_seconds_total.",
	},
	unitDRAM: {
		Family: familyUnit, Name: "gpuledger_unit_gpu_dram_active_seconds_total", Type: counter, Unit: "seconds", Flag: FlagProfiling,
		Labels: ofUnit,
		Help:   "Time for which the unit was alone on the GPU or MIG instance, weighted by the fraction of the memory bandwidth in use; absent without gpuledger_unit_gpu_profiled_seconds_total.",
	},
	containerUnitEnergy: {
		Family: familyUnit, Name: "gpuledger_container_unit_energy_joules_total", Type: counter, Unit: "joules",
		Labels: plus(ofContainer, "manager", "unit"),
		Help:   "Part of a container's energy that is charged to processes of a job inside the container.",
	},
	unitProcessInfo: {
		Family: familyUnit, Name: "gpuledger_unit_process_info", Type: gauge, Flag: FlagProcess,
		Labels: plus(ofUnitProcess, "container_id"),
		Help:   "Process of a unit that uses a GPU or ended recently.",
	},
	unitProcessEnergy: {
		Family: familyUnit, Name: "gpuledger_unit_process_energy_joules_total", Type: counter, Unit: "joules", Flag: FlagProcess,
		Labels: plus(ofUnitProcess, "method"),
		Help:   "Part of the unit's energy that is charged to the process.",
	},
	unitProcessActive: {
		Family: familyUnit, Name: "gpuledger_unit_process_active", Type: gauge, Flag: FlagProcess,
		Labels: ofUnitProcess,
		Help:   "1 while the process uses the GPU, then 0.",
	},
	unitProcessSM: {
		Family: familyUnit, Name: "gpuledger_unit_process_sm_utilization_ratio", Type: gauge, Unit: "ratio", Flag: FlagProcess,
		Labels: ofUnitProcess,
		Help:   "Fraction of time in which a kernel of the process ran, averaged over the samples of the last reading.",
	},
	unitProcessMemory: {
		Family: familyUnit, Name: "gpuledger_unit_process_memory_utilization_ratio", Type: gauge, Unit: "ratio", Flag: FlagProcess,
		Labels: ofUnitProcess,
		Help:   "Fraction of time in which the process read or wrote GPU memory, averaged over the samples of the last reading.",
	},
	unitProcessMemoryUsed: {
		Family: familyUnit, Name: "gpuledger_unit_process_memory_used_bytes", Type: gauge, Unit: "bytes", Flag: FlagProcess,
		Labels: ofUnitProcess,
		Help:   "GPU memory of the process.",
	},
	unitProcessStart: {
		Family: familyUnit, Name: "gpuledger_unit_process_start_time_seconds", Type: gauge, Unit: "seconds", Flag: FlagProcess,
		Labels: ofUnitProcess,
		Help:   "Start time of the process, in seconds since the Unix epoch.",
	},

	xidErrors: {
		Family: familyHealth, Name: "gpuledger_gpu_xid_errors_total", Type: counter,
		Labels: ofGPU,
		Help:   "XID errors that the driver reported; absent if the driver does not report XID errors.",
	},
	xidLast: {
		Family: familyHealth, Name: "gpuledger_gpu_xid_last_timestamp_seconds", Type: gauge, Unit: "seconds",
		Labels: plus(ofGPU, "xid"),
		Help:   "Time of the last XID error with this code, in seconds since the Unix epoch.",
	},
	lastReading: {
		Family: familyHealth, Name: "gpuledger_gpu_last_reading_timestamp_seconds", Type: gauge, Unit: "seconds",
		Labels: ofGPU,
		Help:   "Time of the last reading of the GPU, in seconds since the Unix epoch.",
	},
	memorySource: {
		Family: familyGauges, Name: "gpuledger_gpu_memory_source_info", Type: gauge, Flag: FlagGauges,
		Labels: plus(ofGPU, "source"),
		Help:   "Source of the memory of a GPU that has no memory of its own. The total memory of such a GPU is the machine's memory.",
	},
	rowRemapPending: {
		Family: familyHealth, Name: "gpuledger_gpu_row_remap_pending", Type: gauge,
		Labels: ofGPU,
		Help:   "1 while a row remap of the GPU's memory is pending until the next reset; absent if the GPU is in MIG mode or does not report this value.",
	},
	rowRemapFailure: {
		Family: familyHealth, Name: "gpuledger_gpu_row_remap_failure", Type: gauge,
		Labels: ofGPU,
		Help:   "1 if a row of the GPU's memory could not be remapped because no spare row was left; absent if the GPU is in MIG mode or does not report this value.",
	},
	remappedRows: {
		Family: familyHealth, Name: "gpuledger_gpu_remapped_rows", Type: gauge, Flag: FlagDetails,
		Labels: plus(ofGPU, "error"),
		Help:   "Rows of memory that were remapped over the life of the board because of errors. NVML: nvmlDeviceGetRemappedRows.",
	},
	gpuRecovery: {
		Family: familyHealth, Name: "gpuledger_gpu_recovery_action_info", Type: gauge,
		Labels: plus(ofGPU, "action"),
		Help:   "Action that the driver requires to recover the GPU; absent if the driver does not report it.",
	},
	switchErrors: {
		Family: familyHealth, Name: "gpuledger_nvswitch_sxid_errors_total", Type: counter,
		Labels: []string{"pci_bus_id", "sxid", "severity"},
		Help:   "SXID errors of an NVSwitch in the kernel's log since the node booted; absent until the first such error, and always absent without `--xid.kernel-log`.",
	},
	rasErrors: {
		Family: familyHealth, Name: "gpuledger_gpu_ras_errors_total", Type: counter,
		Labels: plus(ofGPU, "block", "type"),
		Help:   "Errors that an AMD GPU counted since its driver was loaded; absent if the GPU does not count them.",
	},
	stageUp: {
		Family: familyStages, Name: "gpuledger_stage_up", Type: gauge,
		Labels: []string{"stage"},
		Help:   "1 if the last attempt of the stage succeeded, else 0.",
	},
	stageDuration: {
		Family: familyStages, Name: "gpuledger_stage_duration_seconds", Type: gauge, Unit: "seconds",
		Labels: []string{"stage"},
		Help:   "Duration of the stage's last attempt.",
	},
	stageFailures: {
		Family: familyStages, Name: "gpuledger_stage_failures_total", Type: counter,
		Labels: []string{"stage"},
		Help:   "Failed attempts of the stage.",
	},
	stageOversized: {
		Family: familyStages, Name: "gpuledger_stage_oversized_total", Type: counter,
		Labels: []string{"stage"},
		Help:   "Failed attempts of the stage because an input exceeded a limit of the exporter. The exporter then ignores the whole input.",
	},
	stageLastSuccess: {
		Family: familyStages, Name: "gpuledger_stage_last_success_timestamp_seconds", Type: gauge, Unit: "seconds",
		Labels: []string{"stage"},
		Help:   "Time of the stage's last success, in seconds since the Unix epoch.",
	},
	processCount: {
		Family: familyMapping, Name: "gpuledger_processes", Type: gauge,
		Labels: []string{"mapped"},
		Help:   "Processes on GPUs; a process on two GPUs is counted twice.",
	},
	gpuStrays: {
		Family: familyMapping, Name: "gpuledger_gpu_processes_without_allocation", Type: gauge,
		Labels: ofGPU,
		Help:   "Processes of pods on a GPU that is not allocated to the pod; absent while allocations or processes are unknown.",
	},
	gpuUnused: {
		Family: familyMapping, Name: "gpuledger_gpu_allocations_without_process", Type: gauge,
		Labels: ofGPU,
		Help:   "Allocations of a GPU to pods that have no process on the GPU; absent while allocations or processes are unknown.",
	},

	placement: {
		Page: RecordPage, Family: familyPlacement, Name: "gpuledger_placement_info", Type: gauge,
		Labels: []string{"node", "system_uuid", "UUID", "serial", "chassis_serial", "chassis_slot", "tray_index", "pci_bus_id", "model"},
		Help:   "Placement of a GPU that the driver lists now.",
	},
	allocationEnergy: {
		Page: RecordPage, Family: familyPods, Name: "gpuledger_allocation_energy_joules_total", Type: counter, Unit: "joules",
		Labels: ofAllocation,
		Help:   "Energy of a GPU charged to a pod, summed over the pod's containers, instances and methods.",
	},
	allocationSeconds: {
		Page: RecordPage, Family: familyPods, Name: "gpuledger_allocation_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofAllocation,
		Help:   "Time for which a pod held a GPU, summed over its containers and instances; 0 for a pod that uses the GPU without an allocation.",
	},
	allocationExclusive: {
		Page: RecordPage, Family: familyPods, Name: "gpuledger_allocation_exclusive_energy_joules_total", Type: counter, Unit: "joules",
		Labels: ofAllocation,
		Help:   "Part of a pod's energy that was measured while no other owner held or used the GPU.",
	},
	allocationIdle: {
		Page: RecordPage, Family: familyPods, Name: "gpuledger_allocation_idle_energy_joules_total", Type: counter, Unit: "joules",
		Labels: ofAllocation,
		Help:   "Part of a pod's energy that is idle energy of the GPU.",
	},
	allocationEstimated: {
		Page: RecordPage, Family: familyPods, Name: "gpuledger_allocation_estimated_energy_joules_total", Type: counter, Unit: "joules",
		Labels: ofAllocation,
		Help:   "Part of a pod's energy that was divided among several owners based on an estimated idle power of the GPU.",
	},
	allocationActive: {
		Page: RecordPage, Family: familyPods, Name: "gpuledger_allocation_active_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofAllocation,
		Help:   "Time in which a pod worked on a GPU, summed over its containers and instances; 0 if the driver does not report activity per process.",
	},
	allocationBusy: {
		Page: RecordPage, Family: familyPods, Name: "gpuledger_allocation_busy_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofAllocation,
		Help:   "Time in which kernels of a pod ran on a GPU, summed over its containers and instances; at most the active time.",
	},
	allocationThrottledEnergy: {
		Page: RecordPage, Family: familyPods, Name: "gpuledger_allocation_throttled_joules_total", Type: counter, Unit: "joules",
		Labels: plus(ofAllocation, "throttle"),
		Help:   "Part of a pod's energy that was used while the driver reduced the clocks because of heat or the power brake; absent until the driver first reduces the clocks for this reason. Heat and the power brake may apply at the same time.",
	},
	allocationThrottledSeconds: {
		Page: RecordPage, Family: familyPods, Name: "gpuledger_allocation_throttled_seconds_total", Type: counter, Unit: "seconds",
		Labels: plus(ofAllocation, "throttle"),
		Help:   "Part of a pod's time in which the driver reduced the clocks because of heat or the power brake, summed over its containers and instances; absent until the driver first reduces the clocks for this reason. Heat and the power brake may apply at the same time.",
	},
	allocationProfiled: {
		Page: RecordPage, Family: familyPods, Name: "gpuledger_allocation_profiled_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofAllocation,
		Help:   "Time for which a pod was alone on a GPU or MIG instance and the exporter measured the activity of the GPU's parts, summed over the pod's containers and instances. Needs `--collector.profiling`; absent if the exporter cannot measure this activity.",
	},
	allocationTensor: {
		Page: RecordPage, Family: familyPods, Name: "gpuledger_allocation_tensor_active_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofAllocation,
		Help:   "Time in which the tensor cores were active while a pod was alone on a GPU or MIG instance; absent without gpuledger_allocation_profiled_seconds_total.",
	},
	allocationDRAM: {
		Page: RecordPage, Family: familyPods, Name: "gpuledger_allocation_dram_active_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofAllocation,
		Help:   "Time for which a pod was alone on a GPU or MIG instance, weighted by the fraction of the memory bandwidth in use; absent without gpuledger_allocation_profiled_seconds_total.",
	},
	allocationGPUTime: {
		Page: RecordPage, Family: familyPods, Name: "gpuledger_allocation_gpu_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofAllocation,
		Help:   "Time for which a pod held a GPU, weighted by the pod's share of the held replicas and of the MIG slices. The sum over all pods never exceeds the elapsed time.",
	},
	allocationCreated: {
		Page: RecordPage, Family: familyPods, Name: "gpuledger_allocation_created_timestamp_seconds", Type: gauge, Unit: "seconds",
		Labels: ofAllocation,
		Help:   "Time at which the counters of a pod on a GPU started at 0, in seconds since the Unix epoch; absent if they continue counters with other labels.",
	},
	podNamespace: {
		Page: RecordPage, Family: familyPods, Name: "gpuledger_namespace_info", Type: gauge, Labels: []string{"node", "pod_namespace"},
		Help: "Namespace whose pods used energy on a node. An alert compares it with the label namespace, because a scrape configuration can overwrite that label.",
	},
	allocationUnitEnergy: {
		Page: RecordPage, Family: familyPods, Name: "gpuledger_allocation_unit_energy_joules_total", Type: counter, Unit: "joules",
		Labels: plus(ofAllocation, "manager", "unit"),
		Help:   "Part of a pod's energy on a GPU that is charged to processes of a job in the pod.",
	},
	unitAllocationEnergy: {
		Page: RecordPage, Family: familyUnits, Name: "gpuledger_unit_allocation_energy_joules_total", Type: counter, Unit: "joules",
		Labels: ofUnitAllocation,
		Help:   "Energy of a GPU charged to a unit, summed over instances and methods.",
	},
	unitAllocationSeconds: {
		Page: RecordPage, Family: familyUnits, Name: "gpuledger_unit_allocation_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofUnitAllocation,
		Help:   "Time for which a unit held a GPU, summed over its instances; 0 for a unit that uses the GPU without an allocation.",
	},
	unitAllocationExclusive: {
		Page: RecordPage, Family: familyUnits, Name: "gpuledger_unit_allocation_exclusive_energy_joules_total", Type: counter, Unit: "joules",
		Labels: ofUnitAllocation,
		Help:   "Part of a unit's energy that was measured while no other owner held or used the GPU.",
	},
	unitAllocationIdle: {
		Page: RecordPage, Family: familyUnits, Name: "gpuledger_unit_allocation_idle_energy_joules_total", Type: counter, Unit: "joules",
		Labels: ofUnitAllocation,
		Help:   "Part of a unit's energy that is idle energy of the GPU.",
	},
	unitAllocationEstimated: {
		Page: RecordPage, Family: familyUnits, Name: "gpuledger_unit_allocation_estimated_energy_joules_total", Type: counter, Unit: "joules",
		Labels: ofUnitAllocation,
		Help:   "Part of a unit's energy that was divided among several owners based on an estimated idle power of the GPU.",
	},
	unitAllocationActive: {
		Page: RecordPage, Family: familyUnits, Name: "gpuledger_unit_allocation_active_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofUnitAllocation,
		Help:   "Time in which a unit worked on a GPU, summed over its instances; 0 if the driver does not report activity per process.",
	},
	unitAllocationBusy: {
		Page: RecordPage, Family: familyUnits, Name: "gpuledger_unit_allocation_busy_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofUnitAllocation,
		Help:   "Time in which kernels of a unit ran on a GPU, summed over its instances; at most the active time.",
	},
	unitAllocationThrottledEnergy: {
		Page: RecordPage, Family: familyUnits, Name: "gpuledger_unit_allocation_throttled_joules_total", Type: counter, Unit: "joules",
		Labels: plus(ofUnitAllocation, "throttle"),
		Help:   "Part of a unit's energy that was used while the driver reduced the clocks because of heat or the power brake; absent until the driver first reduces the clocks for this reason. Heat and the power brake may apply at the same time.",
	},
	unitAllocationThrottledSeconds: {
		Page: RecordPage, Family: familyUnits, Name: "gpuledger_unit_allocation_throttled_seconds_total", Type: counter, Unit: "seconds",
		Labels: plus(ofUnitAllocation, "throttle"),
		Help:   "Part of a unit's time in which the driver reduced the clocks because of heat or the power brake, summed over its instances; absent until the driver first reduces the clocks for this reason. Heat and the power brake may apply at the same time.",
	},
	unitAllocationProfiled: {
		Page: RecordPage, Family: familyUnits, Name: "gpuledger_unit_allocation_profiled_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofUnitAllocation,
		Help:   "Time for which a unit was alone on a GPU or MIG instance and the exporter measured the activity of the GPU's parts, summed over the unit's instances. Needs `--collector.profiling`; absent if the exporter cannot measure this activity.",
	},
	unitAllocationTensor: {
		Page: RecordPage, Family: familyUnits, Name: "gpuledger_unit_allocation_tensor_active_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofUnitAllocation,
		Help:   "Time in which the tensor cores were active while a unit was alone on a GPU or MIG instance; absent without gpuledger_unit_allocation_profiled_seconds_total.",
	},
	unitAllocationDRAM: {
		Page: RecordPage, Family: familyUnits, Name: "gpuledger_unit_allocation_dram_active_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofUnitAllocation,
		Help:   "Time for which a unit was alone on a GPU or MIG instance, weighted by the fraction of the memory bandwidth in use; absent without gpuledger_unit_allocation_profiled_seconds_total.",
	},
	unitAllocationGPUTime: {
		Page: RecordPage, Family: familyUnits, Name: "gpuledger_unit_allocation_gpu_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofUnitAllocation,
		Help:   "Time for which a unit held a GPU, weighted by the unit's share of the held replicas and of the MIG slices. The sum over all pods and units never exceeds the elapsed time.",
	},
	unitAllocationCreated: {
		Page: RecordPage, Family: familyUnits, Name: "gpuledger_unit_allocation_created_timestamp_seconds", Type: gauge, Unit: "seconds",
		Labels: ofUnitAllocation,
		Help:   "Time at which the counters of a unit on a GPU started at 0, in seconds since the Unix epoch; absent if they continue counters with other labels.",
	},
	boardEnergy: {
		Page: RecordPage, Family: familyBoards, Name: "gpuledger_board_energy_joules_total", Type: counter, Unit: "joules",
		Labels: ofBoard,
		Help:   "Energy of a GPU, equal to gpuledger_gpu_energy_joules_total.",
	},
	boardUnattributed: {
		Page: RecordPage, Family: familyBoards, Name: "gpuledger_board_unattributed_energy_joules_total", Type: counter, Unit: "joules",
		Labels: plus(ofBoard, "reason"),
		Help:   "GPU energy that is charged to no pod.",
	},
	boardEnergySource: {
		Page: RecordPage, Family: familyBoards, Name: "gpuledger_board_energy_source_info", Type: gauge,
		Labels: plus(ofBoard, "source", "scope"),
		Help:   "Source and scope of the energy readings of a GPU.",
	},
	boardEnergyResets: {
		Page: RecordPage, Family: familyBoards, Name: "gpuledger_board_energy_resets_total", Type: counter,
		Labels: ofBoard,
		Help:   "Resets of a GPU's energy counter, because the GPU was reset or its driver was reloaded.",
	},
	boardUncounted: {
		Page: RecordPage, Family: familyBoards, Name: "gpuledger_board_uncounted_energy_bound_joules_total", Type: counter, Unit: "joules",
		Labels: ofBoard,
		Help:   "Upper bound of the energy that a GPU used and that gpuledger_board_energy_joules_total omits because of resets, rejected readings and gaps.",
	},
	boardEstimated: {
		Page: RecordPage, Family: familyBoards, Name: "gpuledger_board_estimated_energy_joules_total", Type: counter, Unit: "joules",
		Labels: ofBoard,
		Help:   "Part of a GPU's energy that was divided among several owners based on an estimated idle power.",
	},
	boardCreated: {
		Page: RecordPage, Family: familyBoards, Name: "gpuledger_board_created_timestamp_seconds", Type: gauge, Unit: "seconds",
		Labels: ofBoard,
		Help:   "Time at which the energy counters of a GPU were 0, in seconds since the Unix epoch; absent if they continue counters with other labels.",
	},
	boardXIDErrors: {
		Page: RecordPage, Family: familyBoards, Name: "gpuledger_board_xid_errors_total", Type: counter,
		Labels: plus(ofBoard, "xid"),
		Help:   "XID errors of a GPU by code, since the node booted.",
	},
	boardLosses: {
		Page: RecordPage, Family: familyBoards, Name: "gpuledger_board_losses_total", Type: counter,
		Labels: ofBoard,
		Help:   "Number of times that the driver has lost the GPU since the node booted.",
	},
	boardRemappedRows: {
		Page: RecordPage, Family: familyBoards, Name: "gpuledger_board_remapped_rows_total", Type: counter,
		Labels: plus(ofBoard, "error"),
		Help:   "Rows of the GPU's memory that were remapped over the life of the board.",
	},
	boardECCErrors: {
		Page: RecordPage, Family: familyBoards, Name: "gpuledger_board_ecc_errors_total", Type: counter,
		Labels: plus(ofBoard, "memory", "error"),
		Help:   "Memory errors over the life of the board; absent while ECC is off.",
	},
	boardRASErrors: {
		Page: RecordPage, Family: familyBoards, Name: "gpuledger_board_ras_errors_total", Type: counter,
		Labels: plus(ofBoard, "memory", "error"),
		Help:   "Memory errors of an AMD GPU: the driver's counts at the first reading of this boot, plus all later errors. The sum continues if the driver is loaded again. Deferred errors in the GPU's memory count as uncorrectable.",
	},
	boardRetiredPages: {
		Page: RecordPage, Family: familyBoards, Name: "gpuledger_board_retired_pages_total", Type: counter,
		Labels: ofBoard,
		Help:   "Pages of the GPU's memory that were retired over the life of the board; newer GPUs remap rows instead.",
	},
	boardPCIeReplays: {
		Page: RecordPage, Family: familyBoards, Name: "gpuledger_board_pcie_replays_total", Type: counter,
		Labels: ofBoard,
		Help:   "Packets that the PCIe link has sent again because of errors since the driver was loaded.",
	},
	boardNVLinkErrors: {
		Page: RecordPage, Family: familyBoards, Name: "gpuledger_board_nvlink_errors_total", Type: counter,
		Labels: ofBoard,
		Help:   "Errors of all NVLink links since the driver was loaded. Up to NVLink 4, these are CRC errors, replays and recoveries. For NVLink 5 and later, these are recoveries, failed recoveries, integrity errors and receive errors. The counter of these versions continues if the driver is loaded again without a reboot.",
	},
	boardThermal: {
		Page: RecordPage, Family: familyBoards, Name: "gpuledger_board_thermal_throttled_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofBoard,
		Help:   "Time in which the driver reduced the GPU's clocks because the GPU or its memory was too hot.",
	},
	boardPowerBrake: {
		Page: RecordPage, Family: familyBoards, Name: "gpuledger_board_power_brake_throttled_seconds_total", Type: counter, Unit: "seconds",
		Labels: ofBoard,
		Help:   "Time in which the driver reduced the GPU's clocks because the power supply asserted the power brake.",
	},
	boardLowBanks: {
		Page: RecordPage, Family: familyBoards, Name: "gpuledger_board_low_memory_banks", Type: gauge,
		Labels: ofBoard,
		Help:   "Banks of the GPU's memory with few or no spare rows.",
	},
	boardRecovery: {
		Page: RecordPage, Family: familyBoards, Name: "gpuledger_board_recovery_action_info", Type: gauge,
		Labels: plus(ofBoard, "action"),
		Help:   "Action that the driver requires to recover the GPU; absent if the driver does not report it.",
	},
})

func withTables(rows [numMetrics]metric.Metric) [numMetrics]metric.Metric {
	for i, g := range gpu.GaugeInfos {
		rows[firstGauge+metricID(i)] = metric.Metric{
			Family: familyGauges, Name: "gpuledger_gpu_" + g.Name + "_" + g.Unit, Type: gauge, Unit: g.Unit, Flag: FlagGauges,
			Labels: ofGPU,
			Help:   g.Help,
		}
	}
	for i := range gpu.HealthInfos {
		rows[firstHealth+metricID(i)] = healthRow(&gpu.HealthInfos[i])
	}
	for i, a := range gpu.ActivityInfos {
		rows[firstActivity+metricID(i)] = metric.Metric{
			Family: familyProfile, Name: "gpuledger_gpu_" + a.Name + "_seconds_total", Type: counter, Unit: "seconds", Flag: FlagProfiling,
			Labels: ofGPU,
			Help:   a.Help + " NVML: nvmlGpmMetricsGet.",
		}
		rows[firstInstanceActivity+metricID(i)] = metric.Metric{
			Family: familyProfile, Name: "gpuledger_mig_" + a.Name + "_seconds_total", Type: counter, Unit: "seconds", Flag: FlagProfiling,
			Labels: plus(ofGPU, "GPU_I_ID"),
			Help:   "The counter gpuledger_gpu_" + a.Name + "_seconds_total for one MIG instance.",
		}
	}
	return rows
}

func healthRow(h *gpu.HealthInfo) metric.Metric {
	m := metric.Metric{
		Family: familyLinks, Name: "gpuledger_gpu_" + h.Name, Type: gauge, Unit: h.Unit, Flag: FlagHealth,
		Labels: plus(ofGPU, h.Labels...),
		Help:   h.Help + " NVML: " + h.Source + ".",
	}
	if h.Counter {
		m.Type = counter
	}
	if h.Detail {
		m.Family, m.Flag = familyDetails, FlagDetails
	}
	return m
}
