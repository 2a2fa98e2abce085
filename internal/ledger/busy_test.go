package ledger_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// A burstLoad is a process that works in bursts of random lengths.
type burstLoad struct {
	*gpu.Process
	bursts []gpu.Span // bursts on the boot clock
}

// duty is the approximate share of the time in which the process works.
func randomLoad(r *rand.Rand, p *gpu.Process, duty float64, until time.Duration) *burstLoad {
	l := &burstLoad{Process: p}
	longest := 2 + r.Float64()*198
	for now := time.Hour; now < until; {
		length := time.Duration((2 + r.Float64()*(longest-2)) * float64(time.Millisecond))
		now += time.Duration(float64(length) * (1 - duty) / duty * 2 * r.Float64())
		l.bursts = append(l.bursts, gpu.Span{From: now, To: now + length})
		now += length
	}
	return l
}

func (l *burstLoad) within(s gpu.Span) (busy time.Duration) {
	for _, b := range l.bursts {
		busy += max(min(b.To, s.To)-max(b.From, s.From), 0)
	}
	return busy
}

const maxLag = 200 * time.Millisecond

// A burstNode observes loads on one GPU.
type burstNode struct {
	l       *ledger.Ledger
	r       *rand.Rand
	loads   []*burstLoad
	now     time.Duration
	sampled time.Duration
	counted []gpu.Span // times for which the ledger can count busy time
}

// tick makes one observation, about a second after the previous one.
func (n *burstNode) tick() {
	n.now += time.Duration(900+n.r.IntN(200)) * time.Millisecond
	until := n.now - time.Duration(n.r.Int64N(int64(maxLag)))
	o := look((n.now - time.Hour).Seconds(), nil)
	o.Sampled = gpu.Span{From: n.sampled, To: until}
	for _, l := range n.loads {
		o.Processes = append(o.Processes, l.Process)
		o.Allocations = append(o.Allocations, holds(l.Owner, 2))
		if busy := l.within(o.Sampled); busy > 0 {
			o.Activity = append(o.Activity, ledger.Activity{Process: l.Process, Span: o.Sampled, Busy: busy})
		}
	}
	n.sampled = until
	n.l.Observe(o)
	n.l.Settle(o.At, unresolved)
}

// kill stops observing for some time. Then a new ledger continues the saved state.
func (n *burstNode) kill(t *testing.T) {
	n.end()
	n.l = restarted(t, n.l)
	n.now += time.Duration(n.r.IntN(30)) * time.Second
	n.sampled = max(n.sampled, n.now-10*time.Second)
	n.begin()
}

func (n *burstNode) begin() {
	n.tick()
	n.counted = append(n.counted, gpu.Span{From: n.now})
}

func (n *burstNode) end() {
	n.counted[len(n.counted)-1].To = bookOf(n.l, uuid).Settled.Boot
}

// The busy time of each pod must equal the length of its bursts, even if the exporter is killed. A difference of maxLag
// is permitted at the start and at the end of each run of the exporter, because the newest samples are not reported
// yet.
func TestBusyTime(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for run := range uint64(16) {
		r := rand.New(rand.NewPCG(seed, run))
		n := &burstNode{l: newLedger(), r: r, now: time.Hour, sampled: time.Hour}
		for i, owner := range []gpu.Owner{train, serve, containers[3]} {
			duty := []float64{0.01, 0.05, 0.3, 0.8, 1}[r.IntN(5)]
			n.loads = append(n.loads, randomLoad(r, process(uint32(21+i), owner), duty, 90*time.Minute))
		}
		n.begin()
		before := map[gpu.AccountKey]time.Duration{}
		for range 300 {
			if run%2 == 1 && r.IntN(40) == 0 {
				n.kill(t)
			} else {
				n.tick()
			}
			for _, a := range bookOf(n.l, uuid).Accounts {
				if a.Busy < before[a.AccountKey] || a.Busy > a.Active {
					t.Fatalf("run %d: busy %v after %v, active %v", run, a.Busy, before[a.AccountKey], a.Active)
				}
				before[a.AccountKey] = a.Busy
			}
		}
		n.end()
		n.compare(t, run)
	}
}

func (n *burstNode) compare(t *testing.T, run uint64) {
	t.Helper()
	for _, l := range n.loads {
		var want time.Duration
		for _, s := range n.counted {
			want += l.within(s)
		}
		a := accountOf(bookOf(n.l, uuid), l.Owner)
		if off, most := a.Busy-want, 2*maxLag*time.Duration(len(n.counted)); off.Abs() > most {
			t.Errorf("run %d: %s is busy for %v, want %v ± %v (active %v, %d restarts)", run, l.Owner.Name, a.Busy, want, most, a.Active, len(n.counted)-1)
		}
	}
}

func accountOf(b *gpu.Book, owner gpu.Owner) gpu.Account {
	for _, a := range b.Accounts {
		if a.Owner == owner {
			return a
		}
	}
	return gpu.Account{}
}

// A pod that works for 10 ms each second must be active for most of the time, but busy for only 1 % of it.
func TestLightLoad(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	light, heavy := &burstLoad{Process: process(21, train)}, randomLoad(r, process(31, serve), 0.9, 2*time.Hour)
	for s := range 320 {
		from := time.Hour + time.Duration(s)*time.Second + 500*time.Millisecond
		light.bursts = append(light.bursts, gpu.Span{From: from, To: from + 10*time.Millisecond})
	}
	n := &burstNode{l: newLedger(), r: r, loads: []*burstLoad{light, heavy}, now: time.Hour, sampled: time.Hour}
	for n.now < time.Hour+300*time.Second {
		n.tick()
	}
	a := accountOf(bookOf(n.l, uuid), train)
	if want := 2980 * time.Millisecond; (a.Busy-want).Abs() > 50*time.Millisecond || a.Active < 200*time.Second {
		t.Errorf("busy for %v of %v active, want about %v of more than 200s", a.Busy, a.Active, want)
	}
}

func TestBusyTimeOfOthers(t *testing.T) {
	p, q := process(21, train), process(31, serve)
	mute := func(o ledger.Observation) ledger.Observation { o.ActivityKnown = false; return o }
	served := worked(p, 400)
	served.Served = true
	onTwo := func(s float64) ledger.Observation {
		o := onInstance(look(s, []*gpu.Process{p, q}, holdsInstance(train, "1"), holdsInstance(serve, "2")), "")
		o.Partitions, o.Places = new(*halves), map[gpu.ProcessID]string{p.ID: "1", q.ID: "2"}
		o.Instances, o.InstancesKnown = map[string]time.Duration{"1": 250 * time.Millisecond, "2": 2 * time.Second}, true
		return o
	}
	tests := []struct {
		name         string
		looks        []ledger.Observation
		train, serve time.Duration
	}{
		{"the utilisation of a GPU with one owner", []ledger.Observation{look(0, []*gpu.Process{p}), mute(look(1, []*gpu.Process{p}))}, 500 * time.Millisecond, 0},
		{"two owners without samples", []ledger.Observation{look(0, []*gpu.Process{p, q}), mute(look(1, []*gpu.Process{p, q}))}, 0, 0},
		{"clients of an MPS server", []ledger.Observation{look(0, []*gpu.Process{p, q}), active(look(1, []*gpu.Process{p, q}), served)}, 0, 0},
		{"MIG instances, at most the interval", []ledger.Observation{onTwo(0), onTwo(1)}, 250 * time.Millisecond, time.Second},
		{
			"a gap",
			[]ledger.Observation{
				look(0, []*gpu.Process{p}, holds(train, 1)),
				active(look(1, []*gpu.Process{p}, holds(train, 1)), worked(p, 100)),
				active(look(60, []*gpu.Process{p}, holds(train, 1)), worked(p, 900)),
			},
			100 * time.Millisecond, 0,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := ask(t, newLedger(), tt.looks...)
			if a, c := accountOf(b, train).Busy, accountOf(b, serve).Busy; a != tt.train || c != tt.serve {
				t.Errorf("busy for %v and %v, want %v and %v", a, c, tt.train, tt.serve)
			}
		})
	}
}
