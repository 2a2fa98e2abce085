package simnode

import "github.com/gpuledger/gpuledger/internal/gpu"

// Activity is how busy one process kept a GPU, or an instance of it, over one step:
// what the driver only samples.
type Activity struct {
	GPU      string // UUID
	Instance int    // position in the GPU's instances
	Process  gpu.ProcessID
	gpu.Container
	Percent int
}

// activity lists the contexts on all GPUs in the last step, busy or not.
func (w *world) activity() []Activity {
	var out []Activity
	for i, loads := range w.loads() {
		for _, l := range loads {
			out = append(out, Activity{w.boards[i].UUID, l.instance, l.process.id, l.process.owner, l.percent})
		}
	}
	return out
}
