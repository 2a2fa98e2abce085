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
	// Time is in nanoseconds since the Unix epoch, Boot in nanoseconds since
	// boot.
	Time int64 `json:"time_unix_ns"`
	Boot int64 `json:"boot_ns"`
	// GPUs are all GPUs of the scenario, in its order, lost ones included.
	GPUs []GPUTruth `json:"gpus"`
	// Modules are the boards that carry more than one GPU.
	Modules []ModuleTruth `json:"modules,omitempty"`
}

// GPUTruth is what one GPU really used since the simulation began. At every row
//
//	Energy = Idle + Retired + Σ Containers + Σ Processes outside containers
//
// exactly. A process of a container is a part of its container; a container that
// holds a GPU without any process has a share of the floor all the same.
type GPUTruth struct {
	UUID   string `json:"uuid"`
	Serial string `json:"serial"`
	// Counter is the counter the driver shows for this GPU, the GPU's own where
	// there is one, else its module's. It is nil while the GPU or the driver does
	// not answer.
	Counter *gpu.Millijoules `json:"counter_mj"`
	Energy  gpu.Millijoules  `json:"energy_mj"`
	// Idle is the floor that nobody bears, Retired what was borne by containers
	// and processes that were gone for a minute and are listed no more.
	Idle       gpu.Millijoules  `json:"idle_mj"`
	Retired    gpu.Millijoules  `json:"retired_mj"`
	Containers []ContainerTruth `json:"containers,omitempty"`
	Processes  []ProcessTruth   `json:"processes,omitempty"`
}

// ContainerTruth is what one container really used of a GPU or a module.
type ContainerTruth struct {
	gpu.Owner
	Energy gpu.Millijoules `json:"energy_mj"`
}

// ProcessTruth is what one process really used of a GPU. The container is empty
// for a process of the host.
type ProcessTruth struct {
	gpu.ProcessID
	Command string `json:"name"`
	gpu.Owner
	Energy gpu.Millijoules `json:"energy_mj"`
}

// ModuleTruth sums the GPUs of one board.
type ModuleTruth struct {
	Serial     string           `json:"serial"`
	Energy     gpu.Millijoules  `json:"energy_mj"`
	Containers []ContainerTruth `json:"containers,omitempty"`
}

// Sum returns the right side of the GPU's equation.
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

// Since returns what each container used after an earlier row of the same GPU.
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

// GPU returns the truth of one GPU, or nil.
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

// Find returns the newest row in which a GPU's counter has a given value, such
// as one that was read through the driver, or nil.
func (h History) Find(uuid string, counter gpu.Millijoules) *Truth {
	for i := len(h) - 1; i >= 0; i-- {
		if g := h[i].GPU(uuid); g != nil && g.Counter != nil && *g.Counter == counter {
			return &h[i]
		}
	}
	return nil
}

// ReadTruth reads a file of truth, the newest row or the history. A last row that
// is still being written is left out.
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
