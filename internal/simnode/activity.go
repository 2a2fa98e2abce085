package simnode

import "github.com/gpuledger/gpuledger/internal/gpu"

// Activity describes the activity of one process on a GPU, or on an instance of a GPU, during one
// step. The driver reports only samples, and not this exact activity. A container that holds a GPU
// also has one Activity without a process for each replica or instance.
type Activity struct {
	GPU      string // UUID
	Instance int    // position in the GPU's instances
	Process  gpu.ProcessID
	gpu.Owner
	Percent int
	// Holds is set if the Activity represents an allocation.
	Holds bool
}

// activity returns an entry for each context on a GPU in the last step, even for idle contexts. It
// also returns an entry for each allocation.
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
