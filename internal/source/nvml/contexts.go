package nvml

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// In MIG mode, readContexts reads the lists of each MIG device. It does not use the GPU's own lists, because they
// require privileges in MIG mode and do not name instances. If one list is unreadable or too long, all contexts are
// unknown, because the processes in that list would seem to have ended.
func (g *gpuReader) readContexts(q, mig *inquiry, r *gpu.Reading) {
	contexts := make(map[uint32]gpu.Context)
	g.oversized = nil
	if g.device.Partitions == nil {
		r.ContextsKnown = g.listContexts(q, migDevice{handle: g.handle}, contexts)
	} else {
		r.ContextsKnown = !slices.ContainsFunc(g.devices, func(p migDevice) bool { return !g.listContexts(mig, p, contexts) })
	}
	if !r.ContextsKnown {
		return
	}
	delete(contexts, 0) // not a process
	for _, c := range contexts {
		r.Contexts = append(r.Contexts, c)
	}
	slices.SortFunc(r.Contexts, func(a, b gpu.Context) int { return cmp.Compare(a.PID, b.PID) })
}

// listContexts merges the three process lists of a GPU or MIG device into one entry per process. A list that the driver
// does not support counts as empty.
func (g *gpuReader) listContexts(q *inquiry, p migDevice, contexts map[uint32]gpu.Context) (known bool) {
	failed := false
	list := func(symbol string, mps bool) {
		processes, err := query(q, symbol, func() ([]gonvml.ProcessInfo, ret) { return processList(p.handle, symbol) })
		if hasCode(err, gonvml.ERROR_INSUFFICIENT_SIZE) || len(contexts)+len(processes) > maxRows {
			g.oversized = fmt.Errorf("more than %d processes on GPU %s, process list ignored: %w", maxRows, g.device.UUID, stage.ErrOversized)
			failed = true
			return
		}
		if err != nil {
			failed = failed || !unsupported(err)
			return
		}
		known = true
		for _, row := range processes {
			c := merged(contexts[row.Pid], row, mps)
			c.GPUInstance = cmp.Or(c.GPUInstance, p.instance)
			contexts[row.Pid] = c
		}
	}
	list("nvmlDeviceGetComputeRunningProcesses", false)
	list("nvmlDeviceGetGraphicsRunningProcesses", false)
	list("nvmlDeviceGetMPSComputeRunningProcesses", true)
	return known && !failed
}

// Every list reports the memory of the whole process, so merged does not add it up.
func merged(c gpu.Context, p gonvml.ProcessInfo, mps bool) gpu.Context {
	c.PID = p.Pid
	c.MPS = c.MPS || mps
	if p.UsedGpuMemory != math.MaxUint64 { // NVML_VALUE_NOT_AVAILABLE
		used := p.UsedGpuMemory
		if c.MemoryUsed != nil {
			used = max(used, *c.MemoryUsed)
		}
		c.MemoryUsed = &used
	}
	return c
}
