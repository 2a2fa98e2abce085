package simnode

import "github.com/gpuledger/gpuledger/internal/gpu"

// Activity is how busy one process kept a GPU, or an instance of it, over one step:
// what the driver only samples. A container that holds a GPU has one of its own for each
// replica or instance, without a process.
type Activity struct {
	GPU      string // UUID
	Instance int    // position in the GPU's instances
	Process  gpu.ProcessID
	gpu.Owner
	Percent int
	// Holds is set for what is held.
	Holds bool
}

// activity lists the contexts on all GPUs in the last step, busy or not, and who holds them.
func (w *world) activity() []Activity {
	var out []Activity
	holders := w.holders()
	for i, loads := range w.loads() {
		for _, l := range loads {
			out = append(out, Activity{w.boards[i].UUID, l.instance, l.process.id, l.process.owner, l.percent, false})
		}
		for _, h := range holders[i] {
			out = append(out, Activity{w.boards[i].UUID, h.instance, gpu.ProcessID{}, h.Owner, 0, true})
		}
	}
	return out
}
