package nvml_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
	"github.com/gpuledger/gpuledger/internal/source/nvml"
)

// A quietWorld simulates a shared GPU in steps of 1 ms. The model shares no code with the program. In the model, an
// owner uses the energy of the milliseconds in which it works. The energy of idle milliseconds is divided equally among
// the owners.
type quietWorld struct {
	random *rand.Rand
	idle   float64   // W
	work   []float64 // additional power by owner in W
	runs   []pattern // by owner
	noise  float64   // standard deviation of the power sensor's values

	ms      int
	energy  float64 // true energy in J
	truth   []float64
	counter float64   // energy in J, refreshed every 100 ms
	recent  []float64 // power in W in each ms of the time over which the power sensor averages
	sum     float64   // sum of the power in recent
	active  int       // owner that ran last
	busy    int       // busy ms since the last utilisation sample
	power   map[int64]float64
	used    map[int64]float64
	// sampled contains, by owner, the sum of the utilisation in this second's process samples. taken is the number of
	// these samples.
	sampled         []float64
	taken, ringBusy int
}

type pattern func(ms int) bool

const (
	powerEvery   = 19  // ms between two power samples; the driver keeps 120 samples
	busyEvery    = 167 // ms between two utilisation samples; the driver keeps 99 samples
	limit        = 700
	processEvery = 139
)

// The power sensor reports the average over the given number of milliseconds.
func newQuietWorld(seed uint64, idle float64, averaging int, work []float64, runs []pattern) *quietWorld {
	return &quietWorld{
		recent: slices.Repeat([]float64{idle}, averaging), sum: idle * float64(averaging),
		random: rand.New(rand.NewPCG(seed, 1)), idle: idle, work: work, runs: runs, noise: 2,
		truth: make([]float64, len(runs)), sampled: make([]float64, len(runs)), power: map[int64]float64{}, used: map[int64]float64{},
	}
}

func (w *quietWorld) at() int64 { return start.Add(time.Duration(w.ms) * time.Millisecond).UnixMicro() }

var start = time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)

// Owners with work take turns.
func (w *quietWorld) step() {
	w.ms++
	running := -1
	for i := range w.runs {
		if k := (w.active + 1 + i) % len(w.runs); w.runs[k](w.ms) && running < 0 {
			running = k
		}
	}
	watts := w.idle
	if running >= 0 {
		watts, w.active = watts+w.work[running], running
		w.busy, w.ringBusy = w.busy+1, w.ringBusy+1
		w.truth[running] += watts / 1000
	} else {
		for i := range w.truth {
			w.truth[i] += watts / 1000 / float64(len(w.truth))
		}
	}
	w.energy += watts / 1000
	oldest := &w.recent[w.ms%len(w.recent)]
	w.sum += watts
	w.sum -= *oldest
	*oldest = watts
	w.sample()
}

func (w *quietWorld) sample() {
	if w.ms%100 == 0 {
		w.counter = w.energy
	}
	if w.ms%powerEvery == 0 {
		w.power[w.at()] = w.sum/float64(len(w.recent)) + w.noise*w.random.NormFloat64()
		delete(w.power, w.at()-120*powerEvery*1000)
	}
	if w.ms%busyEvery == 0 {
		percent := 100 * w.busy / busyEvery
		w.used[w.at()], w.busy = float64(percent)/100, 0
		delete(w.used, w.at()-99*busyEvery*1000)
	}
	if w.ms%processEvery == 0 {
		w.taken++
		w.sampled[w.active] += float64(100*w.ringBusy/processEvery) / 100
		w.ringBusy = 0
	}
}

type quietBook struct {
	t       *testing.T
	w       *quietWorld
	l       *ledger.Ledger
	quiet   nvml.QuietTimes
	found   int
	stored  gpu.Watts
	blind   bool // set if there are no power samples
	holders []gpu.Owner
	last    *gpu.Book
}

func newQuietBook(t *testing.T, w *quietWorld) *quietBook {
	b := &quietBook{t: t, w: w, l: ledger.New(ledger.Config{Tick: time.Second, Retention: time.Minute})}
	for i := range w.runs {
		b.holders = append(b.holders, gpu.Owner{Kind: gpu.OwnerPod, Scope: "ns", Name: string(rune('a' + i)), UID: string(rune('a' + i)), Part: "main"})
	}
	return b
}

func (b *quietBook) run(seconds int) *gpu.Book {
	b.t.Helper()
	for range seconds {
		for range 1000 {
			b.w.step()
		}
		b.observe()
	}
	return b.last
}

func (b *quietBook) observe() {
	b.t.Helper()
	w := b.w
	now := gpu.Instant{Wall: start.Add(time.Duration(w.ms) * time.Millisecond), Boot: time.Hour + time.Duration(w.ms)*time.Millisecond}
	span := gpu.Span{From: now.Boot - time.Second, To: now.Boot}
	o := ledger.Observation{
		UUID: "GPU-a", Model: "H100", At: now, Energy: new(gpu.Millijoules(w.counter * 1000)), MaxPower: limit, PowerLimit: limit,
		ProcessesKnown: true, AllocationsKnown: true, ActivityKnown: true, Sampled: span, StoredIdlePower: b.stored,
	}
	busy := 0.0
	for i, owner := range b.holders {
		p := &gpu.Process{ID: gpu.ProcessID{PID: uint32(100 + i), Start: 1}, Owner: owner}
		o.Processes = append(o.Processes, p)
		o.Allocations = append(o.Allocations, gpu.Allocation{UUID: "GPU-a", Owner: owner, Replicas: 1, Sharing: gpu.SharingTimeSlicing, Live: true})
		share := w.sampled[i] / float64(max(w.taken, 1)) // share of the samples that name the owner
		if used := float64(int(100*share)) / 100; used > 0 {
			o.Activity = append(o.Activity, ledger.Activity{Process: p, Span: span, Busy: time.Duration(used * float64(time.Second))})
		}
		busy, w.sampled[i] = busy+share, 0
	}
	w.taken = 0
	o.Utilization, o.QuietSampled = new(w.used[lastOf(w.used)]), !b.blind
	if second := w.ms / 1000; !b.blind && (second%2 == 0 && b.found < 60 || second%10 == 0) {
		if o.QuietPower = b.quiet.Measure(w.power, w.used, limit); o.QuietPower > 0 {
			b.found++
		}
	}
	b.l.Observe(o)
	b.l.Settle(now, func(gpu.ProcessID) gpu.Owner { return gpu.Owner{} })
	b.check()
}

func (b *quietBook) check() {
	b.t.Helper()
	now := b.l.State().Books["GPU-a"].Book
	if now.Energy != now.Sum() || now.Estimated > now.Energy {
		b.t.Fatalf("energy %d mJ, sum of the accounts %d mJ, estimated %d mJ", now.Energy, now.Sum(), now.Estimated)
	}
	if b.last != nil {
		if now.Estimated < b.last.Estimated || len(now.Accounts) < len(b.last.Accounts) {
			b.t.Fatal("an amount decreased")
		}
		for i, was := range b.last.Accounts {
			if is := now.Accounts[i]; is.Energy.Sum() < was.Energy.Sum() || is.Idle < was.Idle || is.Estimated < was.Estimated {
				b.t.Fatalf("an amount of %s decreased", is.Name)
			}
		}
	}
	b.last = &now
}

func lastOf(values map[int64]float64) (last int64) {
	for at := range values {
		last = max(last, at)
	}
	return last
}

func (b *quietBook) share(owner int) (charged, truth float64) {
	for _, a := range b.last.Accounts {
		if a.Owner == b.holders[owner] {
			charged = 100 * a.Energy.Sum().Joules() / b.last.Energy.Joules()
		}
	}
	return charged, 100 * b.w.truth[owner] / b.w.energy
}
