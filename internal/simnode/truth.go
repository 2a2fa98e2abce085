package simnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Truth is one row of the truth: the state of the model after one step.
type Truth struct {
	// Time is in nanoseconds since the Unix epoch. Boot is in nanoseconds since boot.
	Time int64 `json:"time_unix_ns"`
	Boot int64 `json:"boot_ns"`
	// GPUs contains all GPUs, including lost GPUs, in the order of the scenario.
	GPUs []GPUTruth `json:"gpus"`
	// Modules contains the boards with more than one GPU.
	Modules []ModuleTruth `json:"modules,omitempty"`
}

// GPUTruth describes the true use of one GPU since the start of the simulation. In every row
//
//	Energy = Idle + Retired + Σ Containers + Σ Processes outside containers
//
// exactly. The use of a container includes the use of its processes. A container that holds a GPU pays a share of the
// floor even if it has no process.
type GPUTruth struct {
	UUID   string `json:"uuid"`
	Serial string `json:"serial"`
	// Counter is the energy counter that the driver reports for this GPU. If the GPU has no counter of its own, it is
	// the counter of the module. It is nil while the GPU is lost or the driver is not loaded.
	Counter *gpu.Millijoules `json:"counter_mj"`
	Energy  gpu.Millijoules  `json:"energy_mj"`
	// Peak is the highest power of any step so far, in mW.
	Peak int64 `json:"peak_mw"`
	// Idle is the part of the floor that is charged to no owner. Retired is the energy of containers and processes that
	// ended at least a minute ago and are no longer listed.
	Idle       gpu.Millijoules  `json:"idle_mj"`
	Retired    gpu.Millijoules  `json:"retired_mj"`
	Containers []ContainerTruth `json:"containers,omitempty"`
	Processes  []ProcessTruth   `json:"processes,omitempty"`
	// Health contains the conditions of a GPU with defects. It also contains the number of XID errors by code, as
	// xid_<code>.
	Health map[Condition]int64 `json:"health,omitempty"`
}

// ContainerTruth is the true use of a GPU or a module by one container.
type ContainerTruth struct {
	gpu.Owner
	Energy gpu.Millijoules `json:"energy_mj"`
	// Held is the time in ms for which the container held the GPU by allocation, summed over instances. Several
	// replicas of one GPU or instance count once.
	Held int64 `json:"held_ms,omitempty"`
}

// ProcessTruth is the true use of a GPU by one process. The owner is empty for a process on the host.
type ProcessTruth struct {
	gpu.ProcessID
	Command string `json:"name"`
	gpu.Owner
	Energy gpu.Millijoules `json:"energy_mj"`
}

// ModuleTruth contains the sums over the GPUs of one board.
type ModuleTruth struct {
	Serial     string           `json:"serial"`
	Energy     gpu.Millijoules  `json:"energy_mj"`
	Containers []ContainerTruth `json:"containers,omitempty"`
}

// Sum returns the right side of the equation in the comment on [GPUTruth].
func (g *GPUTruth) Sum() gpu.Millijoules {
	sum := g.Idle + g.Retired
	for _, c := range g.Containers {
		sum += c.Energy
	}
	for _, p := range g.Processes {
		if p.Owner == (gpu.Owner{}) {
			sum += p.Energy
		}
	}
	return sum
}

// Since returns the energy that each container used since an earlier row about the same GPU.
func (g *GPUTruth) Since(earlier *GPUTruth) map[gpu.Owner]gpu.Millijoules {
	used := make(map[gpu.Owner]gpu.Millijoules)
	for _, c := range g.Containers {
		used[c.Owner] = c.Energy
	}
	for _, c := range earlier.Containers {
		if _, listed := used[c.Owner]; listed {
			used[c.Owner] -= c.Energy
		}
	}
	return used
}

// GPU returns the truth about the GPU with a UUID, or nil if the row does not contain it.
func (t *Truth) GPU(uuid string) *GPUTruth {
	for i := range t.GPUs {
		if t.GPUs[i].UUID == uuid {
			return &t.GPUs[i]
		}
	}
	return nil
}

// History is a sequence of rows, oldest first.
type History []Truth

// Find returns the newest row in which a GPU's counter has the given value. It returns nil if there is no such row.
func (h History) Find(uuid string, counter gpu.Millijoules) *Truth {
	for i := len(h) - 1; i >= 0; i-- {
		if g := h[i].GPU(uuid); g != nil && g.Counter != nil && *g.Counter == counter {
			return &h[i]
		}
	}
	return nil
}

// ReadTruth reads the newest row or the history of the truth from a file. It skips an incomplete last row.
func ReadTruth(path string) (History, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var rows History
	for dec := json.NewDecoder(f); ; {
		var t Truth
		switch err := dec.Decode(&t); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return rows, nil
		case err != nil:
			return nil, fmt.Errorf("read truth %s: %w", path, err)
		}
		rows = append(rows, t)
	}
}
