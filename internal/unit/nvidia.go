package unit

import (
	"encoding/json"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// nvidiaRuntime begins the names of the runtimes that read the variable below: nvidia,
// nvidia-cdi, nvidia-legacy (NVIDIA Container Toolkit).
const nvidiaRuntime = "nvidia"

// visibleDevices is the value of NVIDIA_VISIBLE_DEVICES in a container's environment: a list of
// GPUs, all, none or void. The other variables can be secrets and are dropped.
type visibleDevices string

// UnmarshalJSON decodes the list of variables.
func (v *visibleDevices) UnmarshalJSON(data []byte) error {
	var env []string
	if err := json.Unmarshal(data, &env); err != nil {
		return err
	}
	for _, variable := range env {
		if value, ok := strings.CutPrefix(variable, "NVIDIA_VISIBLE_DEVICES="); ok {
			*v = visibleDevices(value)
		}
	}
	return nil
}

// devices returns the GPUs in the list.
func (v visibleDevices) devices() (list []gpu.DeviceName) {
	n := 0
	for id := range strings.SplitSeq(string(v), ",") {
		if n++; n > maxHeldLines {
			break
		}
		list = append(list, requested(id)...)
	}
	return list
}
