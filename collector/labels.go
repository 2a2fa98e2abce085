package collector

import (
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/metric"
)

// labelCatalogue describes all labels, in the order of docs/metrics.md.
var labelCatalogue = []metric.Label{
	{Name: "UUID", Help: "UUID of the GPU, the key of each of its series. The label name is spelled as in dcgm-exporter."},
	{Name: "gpu", Help: "Index of the GPU in the driver's order. It changes when a GPU is lost, so display it, but never join on it."},
	{Name: "pci_bus_id", Help: "PCI address in the driver's format."},
	{Name: "device", Help: "Name under `/dev`, such as `nvidia0`. It may change when a GPU is lost."},
	{Name: "model", Help: "Product name."},
	{Name: "vendor", Help: "Manufacturer of the GPU."},
	{Name: "serial", Help: "Serial number of the board. Two GPUs on one board have the same serial number."},
	{Name: "board_part_number", Help: "Part number of the board."},
	{Name: "vbios_version", Help: "Version of the GPU's firmware."},
	{Name: "chassis_serial", Help: "Serial number of the chassis, as reported by the GPU; on `gpuledger_node_info` as reported by the machine's firmware."},
	{Name: "chassis_slot", Help: "Number of the slot in the chassis, counting switch trays."},
	{Name: "tray_index", Help: "Number of the compute tray in the chassis, not counting switch trays."},
	{Name: "host_id", Help: "Number of the host in its compute tray."},
	{Name: "module_id", Help: "Number of the module in the node. It does not follow the PCI order."},
	{Name: "cluster_uuid", Help: "NVLink domain, or the XGMI hive of AMD GPUs. A hive is within one machine."},
	{Name: "clique_id", Help: "Id of the clique in the NVLink domain. GPUs with equal `cluster_uuid` and `clique_id` are connected."},
	{Name: "state", Help: "State of the GPU's registration with its NVLink domain.", Values: []string{"not_started", "in_progress", "completed", "failed"}},
	{
		Name: "problem", Help: "Problem with the GPU's NVLink fabric. The values `route_recovery` and `access_timeout_recovery` mean that a recovery is in progress.",
		Values: []string{"degraded_bandwidth", "route_recovery", "route_unhealthy", "access_timeout_recovery", "incorrect_configuration"},
	},
	{Name: "cause", Help: "Part of the fabric configuration that is incorrect, such as `no_partition`; otherwise empty."},
	{Name: "action", Help: "Action that the driver requires to recover the GPU: `none`, or an action in nvml.h; a newer action has its number.", Values: gpu.Recoveries},
	{Name: "mig_uuid", Help: "UUID of the MIG device."},
	{Name: "GPU_I_PROFILE", Help: "Profile of the MIG instance, such as `3g.40gb`."},
	{Name: "slices", Help: "Number of the GPU's slices that belong to the instance."},
	{Name: "node", Help: "Name of the node."},
	{Name: "sys_vendor", Help: "Manufacturer of the machine."},
	{Name: "product_name", Help: "Model of the machine."},
	{Name: "product_serial", Help: "Serial number of the machine."},
	{Name: "board_serial", Help: "Serial number of the mainboard."},
	{Name: "board_asset_tag", Help: "Asset tag of the mainboard."},
	{Name: "chassis_asset_tag", Help: "Asset tag of the chassis."},
	{Name: "system_uuid", Help: "UUID of the machine."},
	{Name: "source", Help: "Source of the driver's values: `nvml`. Source of energy: `counter` (the board's counter), `divided` (the GPU's share of its module's counter) or `power` (power integrated over time). Source of memory: `system`."},
	{Name: "driver_version", Help: "Version of the kernel driver."},
	{Name: "nvml_version", Help: "Version of the NVML library."},
	{Name: "dcgm_version", Help: "Version of the DCGM host engine, if one is configured."},
	{Name: "dcgm_library_version", Help: "Version of the library that reads the host engine. It should not be newer than the engine."},
	{
		Name: "scope", Help: "Hardware that an energy reading covers: one GPU, a module that contains several dies or a CPU, or unknown.",
		Values: []string{string(gpu.ScopeGPU), string(gpu.ScopeModule), string(gpu.ScopeUnknown)},
	},
	{
		Name: "reason", Help: "Reason why no container is charged. `idle`: no owner held or used the GPU. `host`: a process of the host used the GPU. `unmapped`: a process with an unknown container used the GPU. `unknown`: the allocation of the GPU is stale, or belongs to a pod that may have ended. `gap`: the counter was not read for a while.",
		Values: reasons(), Complete: true,
	},
	{
		Name: "throttle", Help: "Reason why the driver reduced the clocks: the GPU or its memory was too hot, or the power supply asserted the power brake.",
		Values: []string{gpu.ThrottleThermal.String(), gpu.ThrottlePowerBrake.String()},
	},
	{Name: "GPU_I_ID", Help: "MIG instance, empty for a whole GPU."},
	{Name: "namespace", Help: "Namespace of the pod."},
	{Name: "pod", Help: "Name of the pod."},
	{Name: "pod_namespace", Help: "Namespace of pods, in a label that no scrape configuration overwrites."},
	{Name: "pod_uid", Help: "UID of the pod. A pod that is created again under the same name has a new UID."},
	{Name: "container", Help: "Name of the container."},
	{Name: "resource", Help: "Extended resource that the container requested, such as `nvidia.com/gpu`."},
	{Name: "claim", Help: "Resource claim of a device allocated by DRA."},
	{
		Name: "sharing", Help: "Kind of the container's allocation. `time-slicing` includes MPS, because the kubelet does not distinguish these two kinds. `none` means use without an allocation. The label is empty while the kind is unknown.",
		Values: []string{string(gpu.SharingExclusive), string(gpu.SharingTimeSlicing), string(gpu.SharingMIG), string(gpu.SharingNone)},
	},
	{
		Name: "method", Help: "Method by which energy was charged: `exclusive` was measured while no other owner held or used the GPU, `shared` was divided by activity, and `allocated` was charged for the allocation.",
		Values: methods(), Complete: true,
	},
	{Name: "manager", Help: "System that runs the unit: a manager in [this table](managers.md), or the name of a pattern."},
	{Name: "unit", Help: "Name of the unit: a job id (the SLUID if the id is unknown), a container's name (the start of its id if the name is unknown), a service, a uid, or `other` for the units beyond `--units.max`."},
	{Name: "sluid", Help: "Slurm's id for one run of the job, in Slurm 26.05 and later."},
	{Name: "user", Help: "Name of the user, with `--units.users=name`."},
	{Name: "uid", Help: "User id."},
	{Name: "account", Help: "Account of the Slurm job."},
	{Name: "partition", Help: "Partition of the Slurm job."},
	{Name: "cluster_name", Help: "Name of the Slurm cluster."},
	{Name: "job_name", Help: "Name of the Slurm job, written by its user with the [task prolog](slurm.md#names-of-jobs)."},
	{Name: "array_element", Help: "Array and element of the Slurm job, such as `2_4`, from the file that contains the job's name."},
	{Name: "image", Help: "Image of the container."},
	{Name: "project", Help: "Project of Docker Compose."},
	{Name: "pid", Help: "Process id on the host, or `other` for the processes of a container beyond `--collector.process.max`."},
	{Name: "process", Help: "Name of the process when it was first read."},
	{Name: "container_id", Help: "Id of the container in the container runtime."},
	{Name: "xid", Help: "XID code."},
	{Name: "sxid", Help: "SXID code."},
	{
		Name: "severity", Help: "Severity of the error according to NVIDIA's driver.",
		Values: []string{string(gpu.SeverityFatal), string(gpu.SeverityNonFatal)},
	},
	{Name: "error", Help: "Kind of memory error.", Values: []string{"correctable", "uncorrectable"}, Complete: true},
	{Name: "memory", Help: "Memory that has the error: `dram` is the GPU's memory, `sram` means the GPU's caches and registers.", Values: []string{"dram", "sram"}, Complete: true},
	{Name: "spare_rows", Help: "Number of spare rows that a bank has left.", Values: []string{"max", "high", "partial", "low", "none"}, Complete: true},
	{
		Name: "pcie_error", Help: "Type of error, as NVML names its counters. A link recovery (`link_recovery`) is not always an error.",
		Values: []string{
			"replay", "link_recovery", "correctable", "nak_received", "receiver", "bad_tlp", "nak_sent", "bad_dllp", "non_fatal", "fatal",
			"unsupported_request", "lcrc", "lane",
		}, Complete: true,
	},
	{
		Name: "nvlink_error", Help: "Type of error, as NVML names its counters.",
		Values: []string{
			"crc_flit", "crc_data", "replay", "recovery", "malformed_packet", "buffer_overrun", "receive",
			"link_integrity", "transmit_discard", "recovery_failed", "effective", "symbol",
		}, Complete: true,
	},
	{Name: "direction", Help: "Direction, seen from the GPU.", Values: []string{"transmitted", "received"}, Complete: true},
	{Name: "link_state", Help: "State of NVLink links.", Values: []string{"inactive", "active", "sleep", "traffic_disabled"}, Complete: true},
	{
		Name: "clock_limit", Help: "Reason why the clocks are limited. AMD GPUs report `power_cap` (PPT), `prochot`, `socket_thermal`, `regulator_thermal` and `memory_thermal`. Only heat, `prochot` and `power_brake` are faults of the environment.",
		Values: []string{
			"power_cap", "sync_boost", "board_limit", "low_utilization", "reliability", "software_thermal",
			"hardware_thermal", "power_brake", "prochot", "socket_thermal", "regulator_thermal", "memory_thermal",
		}, Complete: true,
	},
	{Name: "power_limit", Help: "Kind of power limit: `enforced` is the limit that is in force now.", Values: []string{"max", "default", "enforced"}, Complete: true},
	{Name: "clock", Help: "Part of the GPU that has this clock: `sm` means the multiprocessors, `video` means the encoders and decoders.", Values: []string{"graphics", "sm", "memory", "video"}, Complete: true},
	{Name: "fan", Help: "Number of the fan."},
	{
		Name: "clock_reason", Help: "Reason for the present clocks, as NVML names it. Reasons overlap: `hardware_slowdown` includes `hardware_thermal` and `power_brake`. While the GPU is `idle`, its clocks are low.",
		Values: []string{
			"idle", "application_clocks", "power_cap", "hardware_slowdown", "sync_boost", "software_thermal",
			"hardware_thermal", "power_brake", "display_clocks", "board_limit", "reliability",
		}, Complete: true,
	},
	{Name: "firmware", Help: "Part of the firmware: `gsp` runs on the GPU's system processor, `inforom` is the image of the InfoROM.", Values: []string{"gsp", "inforom"}, Complete: true},
	{Name: "version", Help: "Version of this part."},
	{
		Name: "mode", Help: "Mode of the GPU. `mig_pending` takes effect at the next reset; `confidential_computing` is a mode of the machine.",
		Values: []string{"persistence", "compute", "mig", "mig_pending", "confidential_computing"}, Complete: true,
	},
	{Name: "setting", Help: "Setting of the mode: `enabled` or `disabled`. The mode `compute` has the settings `default`, `exclusive_process` and `prohibited`. The mode `confidential_computing` can also be `devtools`."},
	{Name: "block", Help: "Block of the GPU, as AMD's driver names it: `umc` is its memory, `gfx` its compute units."},
	{
		Name: "type", Help: "Type of error: `deferred` is an uncorrectable error in data that has not been used yet.",
		Values: []string{string(gpu.RASCorrectable), string(gpu.RASDeferred), string(gpu.RASUncorrectable)}, Complete: true,
	},
	{
		Name: "stage", Help: "Dependency of the exporter, or step of a reading.",
		Values: []string{"driver", "amdgpu", "dcgm", "release", "xid", "kernel_log", "pci", "dmi", "gpu_processes", "processes", "host_pids", "container_logs", "pod_resources", "pods_api", "units", "state"},
	},
	{
		Name: "mapped", Help: "Whether the owner of the process is known. The owner is a container or the host.",
		Values: []string{"true", "false"}, Complete: true,
	},
}

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
