package nvml

import (
	"cmp"
	"math"
	"slices"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// readContexts reads who holds a context. In MIG mode each MIG device is asked: the
// lists of the whole GPU are then for privileged callers only, and name no
// instance. One that tells nothing leaves all unknown, or its processes would seem
// to have ended. What fails of MIG says nothing about the GPU itself, and so is an
// inquiry of its own.
func (b *board) readContexts(q *inquiry, r *gpu.Reading) {
	mig := &inquiry{lib: b.lib, lost: q.lost}
	if b.readMIG(mig) != nil {
		return
	}
	contexts := make(map[uint32]gpu.Context)
	if b.device.MIG == nil {
		r.ContextsKnown = listContexts(q, part{handle: b.handle}, contexts)
	} else {
		r.ContextsKnown = !slices.ContainsFunc(b.parts, func(p part) bool { return !listContexts(mig, p, contexts) })
	}
	if !r.ContextsKnown {
		return
	}
	delete(contexts, 0) // no process
	for _, c := range contexts {
		r.Contexts = append(r.Contexts, c)
	}
	slices.SortFunc(r.Contexts, func(a, b gpu.Context) int { return cmp.Compare(a.PID, b.PID) })
}

// listContexts merges the three process lists of a GPU or MIG device, in which a
// process may stand more than once, into one entry per process. It reports whether
// there was a list: where there is none of graphics or MPS the compute list is the
// whole truth.
func listContexts(q *inquiry, p part, contexts map[uint32]gpu.Context) (known bool) {
	list := func(symbol string, call func() ([]gonvml.ProcessInfo, ret), mps bool) {
		processes, err := ask(q, symbol, call)
		if err != nil {
			return
		}
		known = true
		for _, row := range processes {
			c := merged(contexts[row.Pid], row, mps)
			c.GPUInstance = cmp.Or(c.GPUInstance, p.instance)
			contexts[row.Pid] = c
		}
	}
	list("nvmlDeviceGetComputeRunningProcesses", p.handle.GetComputeRunningProcesses, false)
	list("nvmlDeviceGetGraphicsRunningProcesses", p.handle.GetGraphicsRunningProcesses, false)
	list("nvmlDeviceGetMPSComputeRunningProcesses", p.handle.GetMPSComputeRunningProcesses, true)
	return known
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
