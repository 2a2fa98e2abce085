package nvml_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes/nodestate"
	"github.com/gpuledger/gpuledger/internal/source/nvml"
)

// kept is the accounting of one process: its start, the number of samples, and the sum of the percentages in the
// samples. The zero value stands for a process without accounting.
type kept struct {
	began   time.Time
	samples int
	sm, mem int
}

// An office is a GPU with accounting. Its utilisation samples have the PID 99, so that a test can distinguish them from
// accounting.
type office struct {
	t      *testing.T
	clock  *gputest.Clock
	driver *driver
	source *nvml.Source
	uuid   string
}

func newOffice(t *testing.T, accounts map[uint32]kept) *office {
	g := gputest.Full(0)
	o := &office{t: t, clock: gputest.NewClock(), uuid: g.Device.UUID}
	o.driver = newDriver(t, gputest.Node{GPUs: []gputest.GPU{g}})
	o.driver.fields[o.uuid] = "accounting=1"
	o.source = o.driver.open(o.clock.Now)
	o.list(7, 8)
	o.keep(accounts)
	o.read()
	return o
}

func (o *office) list(pids ...uint32) {
	contexts := &o.driver.node.GPUs[0].Reading.Contexts
	*contexts = nil
	for _, pid := range pids {
		*contexts = append(*contexts, gpu.Context{PID: pid})
	}
	o.driver.write()
}

func (o *office) keep(accounts map[uint32]kept) {
	o.driver.lines = nil
	for pid, k := range accounts {
		o.driver.lines = append(o.driver.lines, fmt.Sprintf("account\tgpu=%s\tpid=%d\tstart=%d\tcount=%d\tgr=%d\tfb=%d",
			o.uuid, pid, k.began.UnixMicro(), k.samples, 100*k.sm, 100*k.mem))
	}
	o.driver.lines = append(o.driver.lines, nodestate.Row(o.uuid, o.clock.Now().Wall.Add(900*time.Millisecond), 99, 1, 1))
	o.driver.write()
}

func (o *office) read() gpu.Reading {
	o.t.Helper()
	o.clock.Advance(time.Second)
	report := gputest.Read(o.t, o.source)
	if len(report.Readings) != 1 {
		o.t.Fatalf("%d readings", len(report.Readings))
	}
	return report.Readings[0]
}

// stale is the age that the program assumes for accounting sums.
const stale = time.Second / 2

// want reads the GPU. It checks that the samples come from accounting and cover a span of the given length.
func (o *office) want(long time.Duration, samples ...gpu.Sample) {
	o.t.Helper()
	r := o.read()
	until := o.clock.Now().Boot - stale
	span := gpu.Span{From: until - long, To: until}
	for i := range samples {
		samples[i].Span = span
	}
	if diff := cmp.Diff(samples, r.Samples, cmpopts.EquateEmpty(), cmpopts.EquateApprox(0, 1e-9)); diff != "" || !r.SamplesKnown || r.Sampled != span {
		o.t.Errorf("samples of %v, known %v, want %v (-want +got):\n%s", r.Sampled, r.SamplesKnown, span, diff)
	}
}

func (o *office) wantRing() {
	o.t.Helper()
	r := o.read()
	if len(r.Samples) != 1 || r.Samples[0].PID != 99 || !r.SamplesKnown {
		o.t.Errorf("samples differ from the ring: %+v, known %v", r.Samples, r.SamplesKnown)
	}
}

var longAgo = time.Unix(1_700_000_000, 0)

// ringLate is the age of the newest utilisation sample at a reading.
const ringLate = 100 * time.Millisecond

func two(samples, sm7, sm8 int) map[uint32]kept {
	return map[uint32]kept{7: {longAgo, samples, sm7, sm7 / 2}, 8: {longAgo, samples, sm8, 0}}
}

// TestAccounting checks that a reading reports the increase of the accounting sums, and no utilisation samples from the
// ring buffer.
func TestAccounting(t *testing.T) {
	o := newOffice(t, two(1000, 5000, 70_000))
	o.keep(two(1007, 5350, 70_175))
	o.want(time.Second+ringLate-stale, gpu.Sample{PID: 7, SM: 0.5, Memory: 0.25}, gpu.Sample{PID: 8, SM: 0.25})
	o.keep(two(1014, 5350, 70_875))
	o.want(time.Second, gpu.Sample{PID: 7}, gpu.Sample{PID: 8, SM: 1})
}

// While the driver does not update the sums, readings must cover no time. After three seconds without an update, a
// reading must cover this time.
func TestAccountingStandsStill(t *testing.T) {
	o := newOffice(t, two(10, 0, 0))
	o.keep(two(17, 700, 0))
	o.want(time.Second+ringLate-stale, gpu.Sample{PID: 7, SM: 1, Memory: 0.5}, gpu.Sample{PID: 8})
	until := o.clock.Now().Boot - stale
	for range 2 {
		if r := o.read(); !r.SamplesKnown || len(r.Samples) != 0 || r.Sampled != (gpu.Span{From: until, To: until}) {
			t.Errorf("samples of %v: %+v", r.Sampled, r.Samples)
		}
	}
	o.keep(two(37, 700, 2000))
	o.want(3*time.Second, gpu.Sample{PID: 7}, gpu.Sample{PID: 8, SM: 1})
	o.read()
	o.read()
	o.want(3 * time.Second) // no activity
}

func TestAccountingComesAndGoes(t *testing.T) {
	o := newOffice(t, two(1000, 0, 0))
	accounts := two(1010, 500, 0)
	accounts[9] = kept{o.clock.Now().Wall.Add(time.Second / 2), 5, 500, 0}
	o.keep(accounts)
	o.list(7, 8, 9)
	o.want(time.Second+ringLate-stale, gpu.Sample{PID: 7, SM: 0.5, Memory: 0.25}, gpu.Sample{PID: 8}, gpu.Sample{PID: 9, SM: 0.5})

	o.list(8) // the other processes have ended, but the driver still adds their last samples
	accounts = two(1020, 600, 0)
	accounts[7] = kept{longAgo, 1015, 600, 300}
	accounts[9] = kept{o.clock.Now().Wall.Add(-time.Second / 2), 5, 500, 0}
	o.keep(accounts)
	o.want(time.Second, gpu.Sample{PID: 7, SM: 0.1, Memory: 0.05}, gpu.Sample{PID: 8})
	asked := strings.Count(o.driver.log(), "nvmlDeviceGetAccountingStats\t")
	for n := range 3 {
		accounts[8] = kept{longAgo, 1030 + 10*n, 0, 0}
		o.keep(accounts)
		o.want(time.Second, gpu.Sample{PID: 8})
	}
	if again := strings.Count(o.driver.log(), "nvmlDeviceGetAccountingStats\t") - asked; again != 2+1+1 {
		t.Errorf("%d accounts were read, want one per reading for the present process, and one for the ended process", again)
	}
	o.list()
	for range 3 { // the process ended; after that there is no process
		o.read()
	}
	o.keep(nil)
	o.read()
	o.want(time.Second)
}

// The activity of a process that starts and ends between two readings must be reported.
func TestAccountingOfWhoWasNotSeen(t *testing.T) {
	accounts := two(1000, 0, 0)
	accounts[5] = kept{longAgo, 700, 90_000, 0} // the process ended long ago
	o := newOffice(t, accounts)
	for n := range 3 {
		accounts[7], accounts[8] = kept{longAgo, 1010 + 10*n, 500 + 500*n, 0}, kept{longAgo, 1010 + 10*n, 0, 0}
		accounts[uint32(10+n)] = kept{o.clock.Now().Wall.Add(time.Second / 4), 5, 500, 0}
		o.keep(accounts)
		want := []gpu.Sample{{PID: 7, SM: 0.5}, {PID: 8}, {PID: uint32(10 + n), SM: 0.5}}
		if diff := cmp.Diff(want, o.read().Samples, cmpopts.IgnoreTypes(gpu.Span{})); diff != "" {
			t.Errorf("samples %d (-want +got):\n%s", n, diff)
		}
	}
}

// A new process must not get the activity of an earlier process with the same PID.
func TestAccountingPIDReuse(t *testing.T) {
	o := newOffice(t, two(1000, 90_000, 0))
	accounts := two(1010, 0, 1000)
	accounts[7] = kept{o.clock.Now().Wall.Add(time.Second / 2), 5, 500, 0}
	o.keep(accounts)
	o.want(time.Second+ringLate-stale, gpu.Sample{PID: 7, SM: 0.5}, gpu.Sample{PID: 8, SM: 1})
}

// While accounting is incomplete, readings must use the utilisation samples in the ring buffer. The first reading with
// complete accounting must also use them, because there are no earlier sums to subtract.
func TestAccountingFallsBack(t *testing.T) {
	failing := func(call, do string) func(*office) {
		return func(o *office) { o.driver.fault(o.uuid, call, do) }
	}
	keeping := func(accounts map[uint32]kept) func(*office) {
		return func(o *office) { o.keep(accounts) }
	}
	sums := func(samples, sm, mem int) map[uint32]kept {
		return map[uint32]kept{7: {longAgo, samples, sm, mem}, 8: {longAgo, samples, 600, 0}}
	}
	tests := []struct {
		name  string
		spoil func(*office)
		again bool
	}{
		{"a process that is older than its account", func(o *office) {
			o.keep(map[uint32]kept{7: {longAgo, 10, 1000, 500}, 8: {longAgo, 10, 600, 0}, 9: {longAgo, 500, 5000, 0}})
			o.list(7, 8, 9) // its account is then removed
		}, true},
		{"another old process without an account", keeping(map[uint32]kept{7: {longAgo, 10, 1000, 500}, 8: {longAgo.Add(time.Second), 10, 600, 0}}), true},
		{"no account", keeping(map[uint32]kept{7: {longAgo, 10, 1000, 500}}), true},
		{"an ended process without an account", func(o *office) {
			o.keep(map[uint32]kept{7: {longAgo, 10, 1000, 500}})
			o.list(7)
		}, true},
		{"accounts restart", keeping(sums(1, 100, 50)), false},
		{"fewer samples", keeping(sums(4, 700, 350)), false},
		{"a sum that decreased", keeping(sums(10, 600, 350)), false},
		{"another sum that decreased", keeping(sums(10, 1000, 300)), false},
		{"more samples than the driver took", keeping(sums(7, 1000, 500)), false},
		{"no number", func(o *office) { o.driver.replace("gr=60000", fmt.Sprintf("gr=%d", uint64(math.MaxUint64))) }, true},
		{"a failure", failing("nvmlDeviceGetAccountingStats", "fail:999"), true},
		{"an empty response", failing("nvmlDeviceGetAccountingStats", "blank"), true},
		{"no list of accounts", failing("nvmlDeviceGetAccountingPids", "fail:999"), true},
		{"no list of processes", failing("nvmlDeviceGetMigMode", "fail:999"), true},
		{"no mode", failing("nvmlDeviceGetAccountingMode", "fail:999"), true},
		{"switched off", func(o *office) { o.driver.replace("accounting=1", "accounting=0") }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := newOffice(t, two(3, 500, 500))
			o.keep(two(6, 700, 500))
			o.want(time.Second+ringLate-stale, gpu.Sample{PID: 7, SM: 2. / 3, Memory: 1. / 3}, gpu.Sample{PID: 8})
			o.keep(two(10, 1000, 600))
			tt.spoil(o)
			o.wantRing()
			o.list(7, 8)
			o.keep(two(100, 1000, 1000))
			r := o.read()
			if again := len(r.Samples) == 1; again != tt.again {
				t.Errorf("the next reading uses the ring: %v, want %v: %+v", again, tt.again, r.Samples)
			}
			until := r.Sampled.To
			o.keep(two(110, 1500, 1000))
			r = o.read()
			want := []gpu.Sample{{PID: 7, SM: 0.5, Memory: 0.25}, {PID: 8}}
			if diff := cmp.Diff(want, r.Samples, cmpopts.IgnoreTypes(gpu.Span{})); diff != "" || r.Sampled.From != until {
				t.Errorf("samples of %v, after those until %v (-want +got):\n%s", r.Sampled, until, diff)
			}
		})
	}
}

// A sum with all bits set must be ignored.
func TestAccountingHasNoNumbers(t *testing.T) {
	o := newOffice(t, nil)
	for n := range 3 {
		o.keep(two(10*n, 77, 77))
		o.driver.rewrite(func(state string) string {
			return strings.ReplaceAll(state, "gr=7700", fmt.Sprintf("gr=%d", uint64(math.MaxUint64)))
		})
		o.wantRing()
	}
}

// If the driver has no utilisation samples, the activity must be known from the second reading on.
func TestAccountingWithoutARing(t *testing.T) {
	o := newOffice(t, two(10, 0, 0))
	o.driver.node.Loads++
	o.driver.node.GPUs[0].Reading.SamplesKnown = false
	o.driver.write()
	gputest.Eventually(t, o.source, "the driver is open again", func(_ gpu.Report, err error) bool { return err == nil })
	o.keep(two(17, 700, 0))
	o.want(time.Second, gpu.Sample{PID: 7, SM: 1, Memory: 0.5}, gpu.Sample{PID: 8})
}

func TestAccountingAfterReload(t *testing.T) {
	o := newOffice(t, two(10, 0, 0))
	o.driver.node.Loads++
	o.keep(two(1000, 500, 500))
	o.clock.Advance(time.Second)
	report := gputest.Eventually(t, o.source, "the driver is open again", func(_ gpu.Report, err error) bool { return err == nil })
	if s := report.Readings[0].Samples; len(s) != 1 || s[0].PID != 99 {
		t.Errorf("samples differ from the ring: %+v", s)
	}
}

// If a reading is too late to be used, the next reading must contain its activity.
func TestStaleAccounts(t *testing.T) {
	o := newOffice(t, two(10, 0, 0))
	o.keep(two(17, 700, 0))
	o.want(time.Second+ringLate-stale, gpu.Sample{PID: 7, SM: 1, Memory: 0.5}, gpu.Sample{PID: 8})
	o.keep(two(27, 700, 1000))
	o.driver.fault(o.uuid, "nvmlDeviceGetAccountingStats", "hang")
	o.clock.Advance(time.Second)
	if report, _ := gputest.Hasty(o.source).Read(t.Context()); len(report.Readings) != 0 {
		t.Fatalf("a GPU that hangs was read: %+v", report.Readings)
	}
	o.clock.Advance(3 * time.Second)
	o.keep(two(37, 1200, 1000))
	report := gputest.Eventually(t, o.source, "the GPU responds again", func(r gpu.Report, err error) bool { return len(r.Readings) == 1 })
	until := o.clock.Now().Boot - stale
	span := gpu.Span{From: until - 4*time.Second, To: until}
	want := []gpu.Sample{{PID: 7, Span: span, SM: 0.25, Memory: 0.125}, {PID: 8, Span: span, SM: 0.5}}
	if diff := cmp.Diff(want, report.Readings[0].Samples); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

// Accounting must not be read in MIG mode or while accounting mode is off, and the program must never enable accounting
// mode.
func TestAccountingIsNotAsked(t *testing.T) {
	n := working()
	d := newDriver(t, n)
	d.fields[n.GPUs[0].Device.UUID], d.fields[n.GPUs[1].Device.UUID] = "accounting=1", "accounting=0"
	d.write()
	s := d.open(gputest.NewClock().Now)
	gputest.Read(t, s)
	gputest.Read(t, s)
	if strings.Contains(d.log(), "nvmlDeviceGetAccountingMode\t"+n.GPUs[0].Device.UUID) {
		t.Error("accounts of a GPU in MIG mode were read")
	}
	if modes, stats := d.calls("nvmlDeviceGetAccountingMode"), d.calls("nvmlDeviceGetAccountingStats"); modes != 2 || stats != 0 {
		t.Errorf("the mode was read %d times and accounts %d times", modes, stats)
	}
}
