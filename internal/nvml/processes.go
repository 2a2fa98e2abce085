package nvml

import (
	"cmp"
	"math"
	"slices"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// readContexts merges the three process lists, in which a process may stand more
// than once, into one entry per process. Where a GPU has no graphics or MPS list
// the compute list is the whole truth.
func (b *board) readContexts(q *inquiry, r *gpu.Reading) {
	contexts := make(map[uint32]gpu.Context)
	list := func(symbol string, call func() ([]gonvml.ProcessInfo, ret), mps bool) {
		processes, err := ask(q, symbol, call)
		if err != nil {
			return
		}
		r.ContextsKnown = true
		for _, p := range processes {
			contexts[p.Pid] = merged(contexts[p.Pid], p, mps)
		}
	}
	list("nvmlDeviceGetComputeRunningProcesses", b.handle.GetComputeRunningProcesses, false)
	list("nvmlDeviceGetGraphicsRunningProcesses", b.handle.GetGraphicsRunningProcesses, false)
	list("nvmlDeviceGetMPSComputeRunningProcesses", b.handle.GetMPSComputeRunningProcesses, true)
	delete(contexts, 0) // no process
	for _, c := range contexts {
		r.Contexts = append(r.Contexts, c)
	}
	slices.SortFunc(r.Contexts, func(a, b gpu.Context) int { return cmp.Compare(a.PID, b.PID) })
}

// merged adds one row to what is known of its process. Every list gives the
// memory of the whole process, so rows are not summed.
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

// slack is how far into the past the first reading asks for samples, and how far
// in the future a sample may lie.
const slack = time.Second

// readSamples reads the samples since the last reading. The driver keeps them in
// a ring of some ten seconds. Asked for everything since time 0 it would return
// averages with processes that are long gone, so the first reading begins a
// second ago; so does one after the wall clock was set back.
func (b *board) readSamples(q *inquiry, r *gpu.Reading) {
	now := b.now().Wall
	latest := now.Add(slack).UnixMicro()
	if b.newest <= 0 || b.newest > latest {
		b.newest = now.Add(-slack).UnixMicro()
	}
	rows, err := ask(q, "nvmlDeviceGetProcessUtilization", func() ([]gonvml.ProcessUtilizationSample, ret) {
		return processUtilization(b.handle, uint64(b.newest))
	})
	if err != nil {
		return
	}
	r.SamplesKnown = true
	since := b.newest
	for _, row := range rows {
		at := int64(min(row.TimeStamp, math.MaxInt64))
		if row.Pid == 0 || row.SmUtil > 100 || row.MemUtil > 100 || at <= since || at > latest {
			continue // the driver's ring is known to hold garbage at times
		}
		b.newest = max(b.newest, at)
		r.Samples = append(r.Samples, gpu.Sample{
			PID: row.Pid, At: time.UnixMicro(at),
			SM: float64(row.SmUtil) / 100, Memory: float64(row.MemUtil) / 100,
		})
	}
	slices.SortStableFunc(r.Samples, func(a, b gpu.Sample) int { return a.At.Compare(b.At) })
}

// processUtilization asks for samples, twice if need be: go-nvml panics when a
// sample is added between its two calls. No sample at all is no failure: the
// driver says NOT_FOUND, or that a buffer of 0 is too small.
func processUtilization(h device, since uint64) (rows []gonvml.ProcessUtilizationSample, r ret) {
	for range 2 {
		rows, r = recovered(h, since)
		if r != gonvml.ERROR_UNKNOWN {
			break
		}
	}
	if r == gonvml.ERROR_NOT_FOUND || r == gonvml.ERROR_INSUFFICIENT_SIZE {
		return nil, gonvml.SUCCESS
	}
	return rows, r
}

func recovered(h device, since uint64) (rows []gonvml.ProcessUtilizationSample, r ret) {
	defer func() {
		if recover() != nil {
			rows, r = nil, gonvml.ERROR_UNKNOWN
		}
	}()
	return h.GetProcessUtilization(since)
}
