package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// The samples cover a time of length back, and end 200 ms before the observation.
func sampled(o ledger.Observation, back time.Duration, activity ...ledger.Activity) ledger.Observation {
	o.Sampled = gpu.Span{From: o.At.Boot - 200*time.Millisecond - back, To: o.At.Boot - 200*time.Millisecond}
	for i := range activity {
		activity[i].Span = o.Sampled
	}
	o.Activity = activity
	return o
}

// The samples from the end of an interval arrive with the next observation, so the interval must wait for them.
func TestLateSamples(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	both := []*gpu.Process{p, q}
	at := func(s float64, activity ...ledger.Activity) ledger.Observation {
		return sampled(look(s, both), time.Second, activity...)
	}
	l := newLedger()
	b := ask(t, l, look(0, both), at(1, worked(p, 400)))
	if b.Energy != 0 {
		t.Errorf("settled before the samples are known: %+v", b)
	}
	// A fifth of the samples from the next second belongs to the first interval.
	b = ask(t, l, at(2, worked(p, 500), worked(q, 500)))
	want := []gpu.ByMethod{{gpu.Shared: 300_000 * 5 / 6}, {gpu.Shared: 300_000 / 6}}
	if diff := cmp.Diff(want, energies(b)); diff != "" {
		t.Errorf("energies after the first interval (-want +got):\n%s", diff)
	}
	if a := b.Accounts[1]; a.Active != 0 {
		t.Errorf("serve active for %v before its first sample, want 0", a.Active)
	}
	// The other samples belong to the second interval, as does a fifth of the following samples.
	b = ask(t, l, at(3, worked(p, 1000)))
	want[0][gpu.Shared] += 300_000 * 6 / 10
	want[1][gpu.Shared] += 300_000 * 4 / 10
	if diff := cmp.Diff(want, energies(b)); diff != "" {
		t.Errorf("energies after the second interval (-want +got):\n%s", diff)
	}
}

func energies(b *gpu.Book) (out []gpu.ByMethod) {
	for _, a := range b.Accounts {
		out = append(out, a.Energy)
	}
	return out
}

// A process must not be charged for an interval in which it did not exist.
func TestLateSamplesOfANewcomer(t *testing.T) {
	p, q, r := process(21, in(train)), process(31, in(serve)), process(41, gpu.Owner{Kind: gpu.OwnerHost})
	l := newLedger()
	b := ask(t, l,
		look(0, []*gpu.Process{p, q}), sampled(look(1, []*gpu.Process{p, q}), time.Second),
		sampled(look(2, []*gpu.Process{p, q, r}), time.Second, worked(p, 100), worked(r, 900)))
	if want := []gpu.ByMethod{{gpu.Exclusive: 300_000}, {}}; !cmp.Equal(want, energies(b)) || b.Unattributed[gpu.Host] != 0 {
		t.Errorf("book after the first interval: %+v, want 300000 mJ exclusive for train, none for the host", b)
	}
	b = ask(t, l, sampled(look(3, []*gpu.Process{p, q, r}), time.Second))
	if got := b.Unattributed[gpu.Host]; got != 300_000*900/980-1 && got != 300_000*900/980 {
		t.Errorf("the host is charged %d mJ, want 275510", got)
	}
}

// If a process is absent at the end of an interval, its last work must count for this interval, even if the sample of
// this work covers a longer time.
func TestSamplesOfOneThatLeft(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	l := newLedger()
	ask(t, l, look(0, []*gpu.Process{p, q}), sampled(look(1, []*gpu.Process{q}), time.Second))
	b := ask(t, l, sampled(look(2, []*gpu.Process{q}), time.Second, worked(p, 150)))
	want := []gpu.ByMethod{{gpu.Exclusive: 300_000}, {gpu.Exclusive: 300_000}}
	if diff := cmp.Diff(want, energies(b)); diff != "" {
		t.Errorf("charged (-want +got):\n%s", diff)
	}
	for _, a := range b.Accounts {
		if a.Active != time.Second {
			t.Errorf("%s active for %v, want 1s", a.Name, a.Active)
		}
	}
}

// After a pause, the driver's accounting reports activity averaged over half a minute. The ledger must divide it in the
// same way as activity averaged over a second.
func TestLongSamples(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	both := []*gpu.Process{p, q}
	l := newLedger()
	b := ask(t, l, look(0, both), sampled(look(1, both), time.Second), sampled(look(31, both), 30*time.Second, worked(p, 24_000), worked(q, 6_000)))
	if got, want := energies(b)[0][gpu.Shared], gpu.Millijoules(240_000); got != want {
		t.Errorf("train in the first second: %d mJ, want %d", got, want)
	}
}

// An activity is averaged over more than one interval. It must count as work in an interval if it covers nearly all of
// the interval.
func TestSamplesOfTwoTicks(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	both := []*gpu.Process{p, q}
	l := newLedger()
	ask(t, l, look(0, both))
	for s := 1.0; s < 10; s += 2 {
		ask(t, l, sampled(look(s, both), 0), sampled(look(s+1, both), 2*time.Second, worked(p, 1000)))
	}
	if b := bookOf(l, uuid); b.Accounts[0].Active != 9*time.Second || b.Accounts[1].Active != 0 {
		t.Errorf("active for %v and %v of %v, want 9s and 0", b.Accounts[0].Active, b.Accounts[1].Active, b.Settled.Boot-time.Hour)
	}
}

// An interval must be settled without late samples if the activity becomes unknown, or after ten seconds without an
// observation.
func TestLateSamplesNeverCome(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	both := []*gpu.Process{p, q}
	begun := func() (*ledger.Ledger, *gpu.Book) {
		l := newLedger()
		return l, ask(t, l, look(0, both), sampled(look(1, both), time.Second, worked(p, 400)))
	}
	l, _ := begun()
	mute := look(2, both)
	mute.ActivityKnown = false
	want := []gpu.ByMethod{{gpu.Exclusive: 300_000, gpu.Allocated: 150_000}, {gpu.Allocated: 150_000}}
	if diff := cmp.Diff(want, energies(ask(t, l, mute))); diff != "" {
		t.Errorf("energies without a signal (-want +got):\n%s", diff)
	}
	l, _ = begun()
	l.Settle(at(10.9), unresolved)
	if b := bookOf(l, uuid); b.Energy != 0 {
		t.Errorf("settled before ten seconds: %+v", b)
	}
	l.Settle(at(11), unresolved)
	want = []gpu.ByMethod{{gpu.Exclusive: 300_000}, {}}
	if diff := cmp.Diff(want, energies(bookOf(l, uuid))); diff != "" {
		t.Errorf("energies after ten seconds (-want +got):\n%s", diff)
	}
}

func TestUnsampled(t *testing.T) {
	l := newLedger()
	mute := look(1, nil)
	mute.ActivityKnown = false
	if b := ask(t, l, mute); b.Unsampled != nil {
		t.Errorf("%v unsampled before the first signal, want nil", *b.Unsampled)
	}
	looks := []struct {
		at   float64
		back time.Duration
		want time.Duration
	}{
		{2, time.Second, 0}, // the time before these first samples does not count
		{3, time.Second, 0},
		{8, time.Second, 4 * time.Second}, // the samples cover only the last of five seconds
		{9, 900 * time.Millisecond, 4100 * time.Millisecond},
		{10, 5 * time.Second, 4100 * time.Millisecond}, // the samples are reported twice
	}
	for _, step := range looks {
		b := ask(t, l, sampled(look(step.at, nil), step.back))
		if b.Unsampled == nil || *b.Unsampled != step.want {
			t.Errorf("at %v s: %v unsampled, want %v", step.at, b.Unsampled, step.want)
		}
	}
	mute = look(11, nil)
	mute.ActivityKnown = false
	if b := ask(t, l, mute, sampled(look(3600, nil), time.Second)); *b.Unsampled != 4100*time.Millisecond {
		t.Errorf("%v unsampled after an hour without a signal, want 4.1s", *b.Unsampled)
	}
}

// The work of an ended process must be divided among the intervals in which the process ran. Each millisecond must
// count once, even if the samples arrive very late.
func TestSamplesLongAfterItLeft(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	both, rest := []*gpu.Process{p, q}, []*gpu.Process{q}
	unsampled := func(s float64, processes []*gpu.Process) ledger.Observation {
		o := look(s, processes)
		o.Sampled.To = at(0).Boot
		return o
	}
	during := func(p *gpu.Process, from, to float64, ms time.Duration) ledger.Activity {
		return ledger.Activity{Process: p, Span: gpu.Span{From: at(from).Boot, To: at(to).Boot}, Busy: ms * time.Millisecond}
	}
	told := look(4, rest)
	told.Sampled.From = at(0).Boot
	// The samples cover the four seconds before p left. Each of the last two intervals gets a quarter of the work. The
	// last interval also gets the rest.
	told.Activity = []ledger.Activity{during(p, -2, 3.8, 120), during(q, 0, 1, 30), during(q, 1, 2, 90)}
	b := ask(t, newLedger(), look(0, both), unsampled(1, both), unsampled(2, rest), unsampled(3, rest), told)
	want := []gpu.ByMethod{{gpu.Shared: 300_000}, {gpu.Shared: 300_000, gpu.Exclusive: 600_000}}
	if diff := cmp.Diff(want, energies(b)); diff != "" {
		t.Errorf("charged (-want +got):\n%s", diff)
	}
}

// If a process left between two observations, only a part of its work must count for the previous interval.
func TestSamplesOfOneThatLeaves(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	both, rest := []*gpu.Process{p, q}, []*gpu.Process{q}
	b := ask(t, newLedger(), look(0, both), sampled(look(1, both), time.Second),
		sampled(look(2, rest), time.Second, worked(p, 500), worked(q, 500)), sampled(look(3, rest), time.Second))
	want := []gpu.ByMethod{{gpu.Shared: 300_000}, {gpu.Shared: 300_000, gpu.Exclusive: 300_000}}
	if diff := cmp.Diff(want, energies(b)); diff != "" {
		t.Errorf("charged (-want +got):\n%s", diff)
	}
}

// After a process has returned to the GPU, its samples must count only for the time after the return.
func TestSamplesOfOneThatReturned(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	both, rest := []*gpu.Process{p, q}, []*gpu.Process{q}
	tests := []struct {
		name string
		now  []*gpu.Process
		from float64 // start of the samples of the process
	}{
		{"is there", both, 0.9},
		{"was present between two observations", rest, 1.2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := look(2, tt.now)
			now.Activity = []ledger.Activity{{Process: p, Span: gpu.Span{From: at(tt.from).Boot, To: at(1.9).Boot}, Busy: 500 * time.Millisecond}}
			want := []gpu.ByMethod{{gpu.Exclusive: 300_000, gpu.Allocated: 150_000}, {gpu.Allocated: 150_000}}
			if diff := cmp.Diff(want, energies(ask(t, newLedger(), look(0, both), look(1, rest), now))); diff != "" {
				t.Errorf("charged (-want +got):\n%s", diff)
			}
		})
	}
}

// If the work of an interval appears only in late samples, no energy of the interval must be idle. This must be true
// even if the utilisation was 0 at the end of the interval.
func TestLateWorkIsNotIdle(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	both := []*gpu.Process{p, q}
	tests := []struct {
		name string
		end  []*gpu.Process // processes at the end of the interval
		from float64        // start of the samples, which end at 1.8 s
	}{
		{"samples of nearly the whole interval", both, 0.1},
		{"of a process that left", []*gpu.Process{q}, 0.8},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resting := func(s float64, processes []*gpu.Process) ledger.Observation {
				o := look(s, processes)
				o.Utilization = new(0.0)
				return o
			}
			end, late := resting(1, tt.end), resting(2, tt.end)
			end.Sampled.To = at(0.1).Boot
			late.Sampled = gpu.Span{From: at(tt.from).Boot, To: at(1.8).Boot}
			late.Activity = []ledger.Activity{{Process: p, Span: late.Sampled, Busy: 500 * time.Millisecond}}
			a := ask(t, newLedger(), resting(0, both), end, late).Accounts[0]
			if a.Energy != (gpu.ByMethod{gpu.Exclusive: 300_000}) || a.Idle != 0 || a.Active != time.Second {
				t.Errorf("account: %+v, want 300000 mJ exclusive, nothing idle, active for 1s", a)
			}
		})
	}
}

// Activity between two readings of the counter must count as active time until an observation shows no activity.
func TestActiveBetweenReadings(t *testing.T) {
	p, mate, q := process(21, in(train)), process(22, in(train)), process(31, in(serve))
	both := []*gpu.Process{p, mate, q}
	b := ask(t, newLedger(), look(0, both), unread(saw(look(0.5, both), p)), look(1, both))
	if b.Accounts[0].Active != 500*time.Millisecond || b.Accounts[1].Active != 0 {
		t.Errorf("active for %v and %v, want 500ms and 0", b.Accounts[0].Active, b.Accounts[1].Active)
	}
}
