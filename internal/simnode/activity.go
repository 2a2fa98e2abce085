package simnode

import "github.com/gpuledger/gpuledger/internal/gpu"

// Activity is the exact activity of one process on a GPU or instance during one step. The driver reports only samples
// of it. Each replica or instance that a container holds also has an Activity without a process.
type Activity struct {
	GPU      string // UUID
	Instance int    // position in the GPU's instances
	Process  gpu.ProcessID
	gpu.Owner
	Percent int
	// Holds is set if the Activity represents an allocation.
	Holds bool
}

// activity also returns an entry for each idle context, and for each allocation.
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
