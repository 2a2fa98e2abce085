package unit

import (
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// nvidiaRuntime is the prefix in the names of the runtimes that read NVIDIA_VISIBLE_DEVICES:
// nvidia, nvidia-cdi and nvidia-legacy (NVIDIA Container Toolkit).
const nvidiaRuntime = "nvidia"

// visibleDevices is the value of NVIDIA_VISIBLE_DEVICES in a container's environment. The value is a list of GPUs, or
// one of the words all, none and void. Other variables are not kept, because they may contain secrets.
type visibleDevices string

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
