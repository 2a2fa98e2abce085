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
// to have ended.
func (b *board) readContexts(q, mig *inquiry, r *gpu.Reading) {
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
// that is all of them: where there is no list of graphics or MPS the compute list is the
// whole truth, but where one fails its processes would seem to have ended.
func listContexts(q *inquiry, p part, contexts map[uint32]gpu.Context) (known bool) {
	failed := false
	list := func(symbol string, call func() ([]gonvml.ProcessInfo, ret), mps bool) {
		processes, err := ask(q, symbol, call)
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
	list("nvmlDeviceGetComputeRunningProcesses", p.handle.GetComputeRunningProcesses, false)
	list("nvmlDeviceGetGraphicsRunningProcesses", p.handle.GetGraphicsRunningProcesses, false)
	list("nvmlDeviceGetMPSComputeRunningProcesses", p.handle.GetMPSComputeRunningProcesses, true)
	return known && !failed
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

// The driver keeps the samples of ringSpan (NVIDIA open-gpu-kernel-modules,
// ctrl2080perf.h: 72 samples over ten seconds).
const ringSpan = 10 * time.Second

// slack is how far into the past the first reading asks for samples, and how far
// in the future a sample may lie.
const slack = time.Second

// settling is how long a sample may take to appear in the ring, which is given two
// periods of it: up to then before now the samples are complete.
const settling = 250 * time.Millisecond

// readSamples reads what processes did since the last reading, by accounting or else
// by the ring.
func (b *board) readSamples(q *inquiry, r *gpu.Reading) {
	if b.readAccounts(q, r) {
		return
	}
	b.readRing(q, r)
	if b.accounts != nil && !r.SamplesKnown {
		b.sampled = b.accounts.at // accounting goes on from here
	}
}

// readRing reads the samples since the last reading. NVML gives one row for each
// process, averaged over all samples that are newer than a time. So that no average
// is of more than is new, that time is never long ago; what fell out of the ring
// before it was read is lost. Times are kept on the boot clock, for the wall clock
// may be set while samples wait.
func (b *board) readRing(q *inquiry, r *gpu.Reading) {
	began := b.now()
	if b.sampled == 0 {
		b.sampled = began.Boot - slack
	}
	span := gpu.Span{From: max(b.sampled, began.Boot-ringSpan), To: began.Boot - settling}
	since := b.since(began.Wall.Add(span.From - began.Boot))
	rows, err := ask(q, "nvmlDeviceGetProcessUtilization", func() ([]gonvml.ProcessUtilizationSample, ret) {
		return processUtilization(b.handle, uint64(max(since, 1))) // 0 asks for all there ever was
	})
	if err != nil {
		return
	}
	ended := b.now()
	rows = slices.DeleteFunc(rows, func(row gonvml.ProcessUtilizationSample) bool {
		at := int64(min(row.TimeStamp, math.MaxInt64))
		// The driver's ring is known to hold garbage at times.
		garbage := row.Pid == 0 || row.SmUtil > 100 || row.MemUtil > 100 || at <= since || at > ended.Wall.Add(slack).UnixMicro()
		if !garbage {
			b.newest = max(b.newest, at)
			span.To = max(span.To, ended.Boot-ended.Wall.Sub(time.UnixMicro(at)))
		}
		return garbage
	})
	span.To = max(span.From, min(span.To, ended.Boot))
	for _, row := range rows {
		r.Samples = append(r.Samples, gpu.Sample{
			PID: row.Pid, Span: span, SM: float64(row.SmUtil) / 100, Memory: float64(row.MemUtil) / 100,
		})
	}
	r.SamplesKnown, r.Sampled, b.sampled = true, span, span.To
}

// since returns from when on samples are to be asked for, in µs of the wall clock. The
// two clocks are not read at one moment, and the newest sample that was told would be
// told again; so its own time counts, unless the wall clock was set.
func (b *board) since(at time.Time) int64 {
	const noise = 10_000
	since := at.UnixMicro()
	if ahead := b.newest - since; ahead > noise || ahead < -ringSpan.Microseconds() {
		b.newest = 0
	}
	return max(since, b.newest)
}

// processUtilization asks for samples, twice if need be: go-nvml panics when a
// sample is added between its two calls. No sample at all is no failure: the
// driver says NOT_FOUND, or that a buffer of 0 is too small.
func processUtilization(h device, since uint64) (rows []gonvml.ProcessUtilizationSample, r ret) {
	for range 2 {
		rows, r = guarded(func() ([]gonvml.ProcessUtilizationSample, ret) { return h.GetProcessUtilization(since) })
		if r != gonvml.ERROR_UNKNOWN {
			break
		}
	}
	if r == gonvml.ERROR_NOT_FOUND || r == gonvml.ERROR_INSUFFICIENT_SIZE {
		return nil, gonvml.SUCCESS
	}
	return rows, r
}
