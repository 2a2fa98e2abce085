package nvml

import (
	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

var fabricStates = map[uint8]string{
	gonvml.GPU_FABRIC_STATE_NOT_STARTED: "not_started",
	gonvml.GPU_FABRIC_STATE_IN_PROGRESS: "in_progress",
	gonvml.GPU_FABRIC_STATE_COMPLETED:   "completed",
}

// fabricFailed is the state after a registration that completed with an error. NVLink to other GPUs then does not work.
const fabricFailed = "failed"

// readFabric runs repeatedly, because links can fail long after the GPU's registration with the fabric. After an error
// it keeps the last registration, but not the health.
func (g *gpuReader) readFabric(q *inquiry) {
	call, read := "nvmlDeviceGetGpuFabricInfo", func() (*gpu.Fabric, ret) {
		info, r := g.handle.GetGpuFabricInfo()
		return fabric(info.State, ret(info.Status), info.ClusterUuid, info.CliqueId), r
	}
	if g.lib.has("nvmlDeviceGetGpuFabricInfoV") {
		call, read = "nvmlDeviceGetGpuFabricInfoV", func() (*gpu.Fabric, ret) {
			info, r := g.handle.GetGpuFabricInfoV().V2()
			f := fabric(info.State, ret(info.Status), info.ClusterUuid, info.CliqueId)
			if f != nil {
				f.Problems = fabricProblems(info.HealthMask)
			}
			return f, r
		}
	}
	f, err := query(q, call, read)
	if err != nil && g.device.Fabric != nil { // snapshots share the old value, so it is copied
		f = new(*g.device.Fabric)
		f.Problems = nil
	}
	g.device.Fabric = f
}

// fabric returns nil if the GPU has no fabric.
func fabric(state uint8, status ret, cluster [16]uint8, clique uint32) *gpu.Fabric {
	word, ok := fabricStates[state]
	if !ok {
		return nil
	}
	if state == gonvml.GPU_FABRIC_STATE_COMPLETED && status != gonvml.SUCCESS {
		return &gpu.Fabric{State: fabricFailed}
	}
	return &gpu.Fabric{State: word, ClusterUUID: clusterUUID(cluster), CliqueID: clique}
}

// maskFields contains the fields of the health mask in which 1 means a problem and 2 means no problem. Two fields are
// omitted: the partition, and the connection to the fabric manager. In these fields 1 means no problem, and a GPU
// without a partition may be a spare GPU.
var maskFields = []struct {
	shift uint
	name  string
}{
	{gonvml.GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW, "degraded_bandwidth"},
	{gonvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_RECOVERY, "route_recovery"},
	{gonvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY, "route_unhealthy"},
	{gonvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ACCESS_TIMEOUT_RECOVERY, "access_timeout_recovery"},
}

var misconfigurations = map[uint32]string{
	gonvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NONE:                 "",
	gonvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_INCORRECT_SYSGUID:    "system_guid",
	gonvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_INCORRECT_CHASSIS_SN: "chassis_serial",
	gonvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NO_PARTITION:         "no_partition",
	gonvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_INSUFFICIENT_NVLINKS: "insufficient_nvlinks",
	gonvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_INCOMPATIBLE_GPU_FW:  "gpu_firmware",
	gonvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_INVALID_LOCATION:     "location",
	gonvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_GPU_STATE_INVALID:    "gpu_state",
}

// fabricProblems ignores fields that the driver does not support and fields with an unknown value.
func fabricProblems(mask uint32) (problems []gpu.FabricProblem) {
	for _, f := range maskFields {
		if v := mask >> f.shift & 3; v == 1 || v == 2 {
			problems = append(problems, gpu.FabricProblem{Name: f.name, Present: v == 1})
		}
	}
	v := mask >> gonvml.GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION & gonvml.GPU_FABRIC_HEALTH_MASK_WIDTH_INCORRECT_CONFIGURATION
	if cause, ok := misconfigurations[v]; ok {
		problems = append(problems, gpu.FabricProblem{Name: "incorrect_configuration", Present: cause != "", Cause: cause})
	}
	return problems
}
