package nvml

import (
	"maps"
	"math"
	"slices"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// accounts contains the driver's accounting statistics at one reading. They are preferred over the utilisation samples
// in the driver's ring buffer. Since R610 the driver sums the activity of each process. These sums do not expire, and
// they can be read after the process has ended. Only an administrator can enable accounting; this package never changes
// the mode.
//
// nvml.h documents the functions and the units of the sums. Older drivers update the sums once a second from the
// samples in the ring buffer (NVIDIA open-gpu-kernel-modules, gpu_acct.c). Three facts are inferred and not verified on
// hardware. sampleCount counts all samples during the life of a process, even samples that do not name the process.
// startTime is wall-clock time. The last samples of a process may be added after its end.
type accounts struct {
	at time.Duration // boot-clock time at which the sums end
	of map[uint32]account
	// all contains the PID of every process with statistics, even if it ended long ago.
	all map[uint32]bool
}

type account struct {
	start   uint64 // wall clock in µs; distinguishes processes with the same PID
	samples uint32
	sm, fb  uint64 // sums over these samples, in percent × 100
}

// fullSample is the increase of a sum by one sample of a fully busy GPU.
const fullSample = 100 * 100

// accountingPeriod is the interval at which the driver updates the sums. On average, the sums are
// half of this period old.
const accountingPeriod = time.Second

// readAccounts adds the activity since the last reading to r. It returns false if the statistics do not cover this
// time; the caller must then read the ring buffer.
func (g *gpuReader) readAccounts(q *inquiry, r *gpu.Reading) bool {
	before := g.accounts
	g.accounts = nil
	if !r.ContextsKnown || !g.accounting(q) {
		return false
	}
	now, err := g.account(q, r.Contexts, before)
	g.accounts = now
	if before == nil || err != nil {
		return false
	}
	done, ok := now.since(before, g.now())
	if !ok {
		return false
	}
	r.SamplesKnown, r.Sampled = true, gpu.Span{From: g.sampled, To: max(g.sampled, now.at)}
	n := mostSamples(done)
	if n == 0 && len(done) > 0 && r.Sampled.Len() <= 2*accountingPeriod {
		r.Sampled.To = r.Sampled.From // the accounts were not updated yet; the next reading will contain the activity
		return true
	}
	r.Samples, g.sampled = samples(done, n, r.Sampled), r.Sampled.To
	now.forget(done, r.Contexts)
	return true
}

// The driver has no accounting in MIG mode.
func (g *gpuReader) accounting(q *inquiry) bool {
	if g.device.Partitions != nil || !q.lib.has("nvmlDeviceGetAccountingStats_v2") {
		return false
	}
	mode, err := query(q, "nvmlDeviceGetAccountingMode", g.handle.GetAccountingMode)
	return err == nil && mode == gonvml.FEATURE_ENABLED
}

// account reads the statistics of all processes that were present at any time since the last reading. It returns an
// error if a process has no statistics, for example because it started before accounting was enabled.
func (g *gpuReader) account(q *inquiry, contexts []gpu.Context, before *accounts) (now *accounts, missing error) {
	now = &accounts{of: make(map[uint32]account), all: make(map[uint32]bool)}
	all, err := query(q, "nvmlDeviceGetAccountingPids", func() ([]uint32, ret) { return accountingPIDs(g.handle) })
	if err != nil {
		return nil, err
	}
	for _, pid := range all {
		now.all[pid] = true
	}
	for pid := range now.concern(contexts, before) {
		s, err := query(q, "nvmlDeviceGetAccountingStats_v2", func() (gonvml.AccountingStats_v2, ret) { return accountOf(g.handle, pid) })
		if err != nil {
			missing = err
			continue
		}
		now.of[pid] = account{start: s.StartTime, samples: s.SampleCount, sm: s.SumGpuUtil, fb: s.SumFbUtil}
	}
	now.at = g.now().Boot - accountingPeriod/2
	return now, missing
}

// accountOf rejects a sum with all bits set, which means that the sum is not available.
func accountOf(h device, pid uint32) (gonvml.AccountingStats_v2, ret) {
	s, r := h.GetAccountingStats_v2(pid)
	if r == gonvml.SUCCESS && (s.SumGpuUtil > math.MaxInt64 || s.SumFbUtil > math.MaxInt64) {
		r = gonvml.ERROR_NO_DATA
	}
	return s, r
}

// concern returns the PIDs whose sums may have changed since an earlier reading.
func (a *accounts) concern(contexts []gpu.Context, before *accounts) map[uint32]bool {
	pids := make(map[uint32]bool)
	for _, c := range contexts {
		pids[c.PID] = true
	}
	if before == nil {
		return pids
	}
	for pid := range before.of {
		pids[pid] = true
	}
	for pid := range a.all {
		if !before.all[pid] {
			pids[pid] = true
		}
	}
	return pids
}

// since returns the increase of each sum since an earlier reading. It returns false if an increase is unknown. An
// example is a process without an earlier sum that started before the earlier reading.
func (a *accounts) since(before *accounts, now gpu.Instant) (map[uint32]account, bool) {
	earlier := now.Wall.Add(before.at - now.Boot).UnixMicro()
	done := make(map[uint32]account, len(a.of))
	for pid, s := range a.of {
		base, known := before.of[pid]
		if !known || base.start != s.start {
			if int64(min(s.start, math.MaxInt64)) < earlier {
				return nil, false
			}
			base = account{}
		}
		d := account{samples: s.samples - base.samples, sm: s.sm - base.sm, fb: s.fb - base.fb}
		if s.samples < base.samples || s.sm < base.sm || s.fb < base.fb || d.sm > fullSample*uint64(d.samples) {
			return nil, false // the accounts were cleared, or are inconsistent
		}
		done[pid] = d
	}
	return done, true
}

// mostSamples returns the number of samples that the driver took. This is the largest count, because a process that was
// always present counts every sample.
func mostSamples(done map[uint32]account) (n uint32) {
	for _, d := range done {
		n = max(n, d.samples)
	}
	return n
}

// samples returns the average activity of each process over a span in which the driver took n
// samples.
func samples(done map[uint32]account, n uint32, span gpu.Span) (out []gpu.Sample) {
	all := float64(n) * fullSample
	for _, pid := range slices.Sorted(maps.Keys(done)) {
		if d := done[pid]; d.samples > 0 {
			out = append(out, gpu.Sample{PID: pid, Span: span, SM: float64(d.sm) / all, Memory: min(float64(d.fb)/all, 1)})
		}
	}
	return out
}

// forget drops ended processes whose sums no longer change.
func (a *accounts) forget(done map[uint32]account, contexts []gpu.Context) {
	maps.DeleteFunc(a.of, func(pid uint32, _ account) bool {
		listed := slices.ContainsFunc(contexts, func(c gpu.Context) bool { return c.PID == pid })
		return !listed && done[pid].samples == 0
	})
}
