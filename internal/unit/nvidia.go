package unit

import (
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// nvidiaRuntime is the prefix of the names of the runtimes that read the variable below: nvidia,
// nvidia-cdi, nvidia-legacy (NVIDIA Container Toolkit).
const nvidiaRuntime = "nvidia"

// visibleDevices is the value of NVIDIA_VISIBLE_DEVICES in a container's environment. It is a list
// of GPUs, or all, none or void. Other variables are dropped, because they may contain secrets.
type visibleDevices string

// read reads the list of variables.
func (v *visibleDevices) read(d *document) error {
	return d.list(func() error {
		var variable string
		err := d.text(&variable)
		if value, ok := strings.CutPrefix(variable, "NVIDIA_VISIBLE_DEVICES="); ok {
			*v = visibleDevices(value)
		}
		return err
	})
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
