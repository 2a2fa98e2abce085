package nvml

import (
	"math"
	"slices"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

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
	b.noteClock()
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
	if b.mixed > 0 {
		mixed, err := b.isMixed(q, began)
		if err != nil {
			return
		}
		if mixed { // samples of no time, so that the ledger waits for those that come
			r.SamplesKnown, r.Sampled = true, gpu.Span{From: b.sampled, To: b.sampled}
			return
		}
		// The average stands for what left the ring unread, too.
		b.mixed, span.From = 0, max(b.sampled, began.Boot-2*ringSpan)
	}
	since := b.since(began.Wall.Add(span.From - began.Boot))
	rows, err := b.rowsSince(q, since)
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

// noteClock detects that the wall clock was set back. The driver stamps samples with it, so
// for as long as samples from before are in the ring they are newer than any time that can
// be asked for: each average is of them too, and their rows lie in the future.
func (b *board) noteClock() {
	now := b.now()
	if last := b.asked; last.Boot > 0 && now.Wall.Sub(last.Wall) < now.Boot-last.Boot-slack {
		b.mixed = now.Boot + ringSpan - slack
	}
	b.asked = now
}

// isMixed reports whether the ring holds samples from before the wall clock was set back. A
// ring may be longer than [ringSpan]: it is mixed for as long as it has samples of the future,
// but those that stay for twice as long are garbage.
func (b *board) isMixed(q *inquiry, now gpu.Instant) (bool, error) {
	rows, err := b.rowsSince(q, now.Wall.Add(slack).UnixMicro())
	return now.Boot < b.mixed || len(rows) > 0 && now.Boot < b.mixed+ringSpan, err
}

// rowsSince asks for the samples after a time, in µs of the wall clock.
func (b *board) rowsSince(q *inquiry, since int64) ([]gonvml.ProcessUtilizationSample, error) {
	return query(q, "nvmlDeviceGetProcessUtilization", func() ([]gonvml.ProcessUtilizationSample, ret) {
		return processUtilization(b.handle, uint64(max(since, 1))) // 0 asks for all there ever was
	})
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
