package collector

import (
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/metric"
)

// labelCatalogue describes every label, in the order in which docs/metrics.md
// lists them.
var labelCatalogue = []metric.Label{
	{Name: "UUID", Help: "The GPU's UUID, as dcgm-exporter spells the label. It is the key of every series of a GPU."},
	{Name: "gpu", Help: "The driver's index of the GPU. It shifts when a GPU is lost: show it, never join on it."},
	{Name: "pci_bus_id", Help: "PCI address as the driver prints it."},
	{Name: "device", Help: "Name under `/dev`, such as `nvidia0`. It shifts like the index."},
	{Name: "model", Help: "Name of the product."},
	{Name: "vendor", Help: "Maker of the GPU."},
	{Name: "serial", Help: "Serial number of the board. Two GPUs on one board share it."},
	{Name: "board_part_number", Help: "Part number of the board."},
	{Name: "vbios_version", Help: "Version of the GPU's firmware."},
	{Name: "chassis_serial", Help: "Serial number of the chassis: of a GPU as the GPU knows it, of a node as its firmware knows it."},
	{Name: "chassis_slot", Help: "Slot in the chassis, switch trays counted."},
	{Name: "tray_index", Help: "Compute tray in the chassis, switch trays not counted."},
	{Name: "host_id", Help: "Host within its compute tray."},
	{Name: "module_id", Help: "Module within the node. It does not follow PCI order."},
	{Name: "cluster_uuid", Help: "The NVLink domain."},
	{Name: "clique_id", Help: "The clique within the NVLink domain: GPUs with equal `cluster_uuid` and `clique_id` reach each other."},
	{Name: "state", Help: "Registration of the GPU with its NVLink domain.", Values: []string{"not_started", "in_progress", "completed"}},
	{Name: "mig_uuid", Help: "The MIG device's UUID."},
	{Name: "GPU_I_PROFILE", Help: "Profile of the MIG instance, such as `3g.40gb`."},
	{Name: "slices", Help: "The GPU's slices that are the instance's."},
	{Name: "node", Help: "Name of the node."},
	{Name: "sys_vendor", Help: "Maker of the machine."},
	{Name: "product_name", Help: "Model of the machine."},
	{Name: "product_serial", Help: "Serial number of the machine."},
	{Name: "board_serial", Help: "Serial number of the mainboard."},
	{Name: "board_asset_tag", Help: "Asset tag of the mainboard."},
	{Name: "chassis_asset_tag", Help: "Asset tag of the chassis."},
	{Name: "system_uuid", Help: "UUID of the machine."},
	{Name: "source", Help: "Of the driver: `nvml`. Of energy: `counter`, the board's own; `divided`, the GPU's part of its module's counter; or `power`, integrated over time."},
	{Name: "driver_version", Help: "Version of the kernel driver."},
	{Name: "nvml_version", Help: "Version of the NVML library."},
	{Name: "dcgm_version", Help: "Version of the DCGM host engine, if it is read."},
	{Name: "dcgm_library_version", Help: "Version of the library that the host engine is read through. It should not be newer than the engine."},
	{
		Name: "scope", Help: "What an energy reading covers: one GPU, a module with more than one die or a CPU, or the driver does not say.",
		Values: []string{string(gpu.ScopeGPU), string(gpu.ScopeModule), string(gpu.ScopeUnknown)},
	},
	{
		Name: "reason", Help: "Why no container is charged: nobody held or used the GPU; a process of the host used it; a process used it whose container could not be named; it was held by an allocation that is stale or whose pod is not known to live; nobody was looking.",
		Values: reasons(), Complete: true,
	},
	{Name: "GPU_I_ID", Help: "MIG instance, empty for a whole GPU."},
	{Name: "namespace", Help: "Namespace of the pod."},
	{Name: "pod", Help: "Name of the pod."},
	{Name: "pod_uid", Help: "UID of the pod. A pod created again under its old name has another."},
	{Name: "container", Help: "Name of the container."},
	{Name: "resource", Help: "Extended resource the container asked for, such as `nvidia.com/gpu`."},
	{Name: "claim", Help: "Resource claim of a device that was allocated by DRA."},
	{
		Name: "sharing", Help: "How the container holds the GPU: `time-slicing` also by MPS, which the kubelet does not tell apart; `none` if it uses it without an allocation, empty while it is not known whether it has one.",
		Values: []string{string(gpu.SharingExclusive), string(gpu.SharingTimeSlicing), string(gpu.SharingMIG), string(gpu.SharingNone)},
	},
	{
		Name: "method", Help: "How energy was charged: measured, no other owner held or used the GPU; divided by measured activity; charged for the allocation.",
		Values: methods(), Complete: true,
	},
	{Name: "pid", Help: "Process id on the host, or `other` for the processes of a container beyond `--collector.process.max`."},
	{Name: "process", Help: "Name of the process as it was first read."},
	{Name: "container_id", Help: "The container runtime's id."},
	{Name: "xid", Help: "Code of the driver's error event."},
	{Name: "error", Help: "Kind of memory error that a row was remapped for.", Values: []string{"correctable", "uncorrectable"}, Complete: true},
	{
		Name: "stage", Help: "Something the exporter depends on.",
		Values: []string{"driver", "dcgm", "xid", "pci", "dmi", "gpu_processes", "processes", "host_pids", "container_logs", "pod_resources", "pods_api", "state"},
	},
	{
		Name: "mapped", Help: "Whether it is known whom the process belongs to: a container or the host.",
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
