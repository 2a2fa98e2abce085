package nvml

import (
	"math"
	"slices"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// ringSpan is the time for which the driver keeps utilisation samples in its ring buffer (NVIDIA
// open-gpu-kernel-modules, ctrl2080perf.h: 72 samples over ten seconds).
const ringSpan = 10 * time.Second

// slack is the maximum age of the samples that the first reading requests. It is also the tolerance
// for samples with a time in the future.
const slack = time.Second

// settling is the maximum time until the driver returns a new sample: two sample periods.
const settling = 250 * time.Millisecond

func (g *gpuReader) readSamples(q *inquiry, r *gpu.Reading) {
	g.noteClock()
	if g.readAccounts(q, r) {
		return
	}
	g.readRing(q, r)
	if g.accounts != nil && !r.SamplesKnown {
		g.sampled = g.accounts.at // accounting covers the time after this
	}
}

// NVML returns one row per process, averaged over all samples after a requested time. The requested time must be the
// end of the last reading, so that averages contain only new samples. Samples are lost if the driver drops them before
// they are read. Times are kept on the boot clock, because the wall clock may be set.
func (g *gpuReader) readRing(q *inquiry, r *gpu.Reading) {
	began := g.now()
	if g.sampled == 0 {
		g.sampled = began.Boot - slack
	}
	span := gpu.Span{From: max(g.sampled, began.Boot-ringSpan), To: began.Boot - settling}
	if g.mixed > 0 {
		mixed, err := g.isMixed(q, began)
		if err != nil {
			return
		}
		if mixed { // with an empty span, the ledger waits for later samples
			r.SamplesKnown, r.Sampled = true, gpu.Span{From: g.sampled, To: g.sampled}
			return
		}
		// During the wait, the driver dropped samples before they were read. The averages are used for that time too.
		g.mixed, span.From = 0, max(g.sampled, began.Boot-2*ringSpan)
	}
	since := g.since(began.Wall.Add(span.From - began.Boot))
	rows, err := g.rowsSince(q, since)
	if err != nil {
		return
	}
	ended := g.now()
	rows = slices.DeleteFunc(rows, func(row gonvml.ProcessUtilizationSample) bool {
		at := int64(min(row.TimeStamp, math.MaxInt64))
		// The driver sometimes returns invalid samples.
		garbage := row.Pid == 0 || row.SmUtil > 100 || row.MemUtil > 100 || at <= since || at > ended.Wall.Add(slack).UnixMicro()
		if !garbage {
			g.newest = max(g.newest, at)
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
	r.SamplesKnown, r.Sampled, g.sampled = true, span, span.To
}

// noteClock detects that the wall clock was set back. The driver's earlier samples then have a time in the future. An
// average over all samples after a requested time includes these samples.
func (g *gpuReader) noteClock() {
	now := g.now()
	if last := g.asked; last.Boot > 0 && now.Wall.Sub(last.Wall) < now.Boot-last.Boot-slack {
		g.mixed = now.Boot + ringSpan - slack
	}
	g.asked = now
}

// isMixed reports whether the driver's buffer contains samples from before the wall clock was set back. The buffer may
// cover more time than [ringSpan]. It counts as mixed while it contains samples with a time in the future. If such
// samples remain for more than twice ringSpan, they are invalid and ignored.
func (g *gpuReader) isMixed(q *inquiry, now gpu.Instant) (bool, error) {
	rows, err := g.rowsSince(q, now.Wall.Add(slack).UnixMicro())
	return now.Boot < g.mixed || len(rows) > 0 && now.Boot < g.mixed+ringSpan, err
}

func (g *gpuReader) rowsSince(q *inquiry, since int64) ([]gonvml.ProcessUtilizationSample, error) {
	return query(q, "nvmlDeviceGetProcessUtilization", func() ([]gonvml.ProcessUtilizationSample, ret) {
		return processUtilization(g.handle, uint64(max(since, 1))) // 0 requests all samples
	})
}

// since returns the wall-clock time after which samples are requested, in µs. Unless the wall clock was set, this is
// the time of the newest sample. The time of the last reading is not used. Its conversion from the boot clock is
// inexact, so the driver could return the newest sample again.
func (g *gpuReader) since(at time.Time) int64 {
	const noise = 10_000
	since := at.UnixMicro()
	if ahead := g.newest - since; ahead > noise || ahead < -ringSpan.Microseconds() {
		g.newest = 0
	}
	return max(since, g.newest)
}
