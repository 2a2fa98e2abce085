package ledger_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

type sums struct {
	energy       gpu.Millijoules
	accounts     map[gpu.AccountKey]gpu.ByMethod
	idle         map[gpu.AccountKey]gpu.Millijoules
	unattributed [gpu.NumReasons]gpu.Millijoules
}

func newSums() sums {
	return sums{accounts: make(map[gpu.AccountKey]gpu.ByMethod), idle: make(map[gpu.AccountKey]gpu.Millijoules)}
}

func (s *sums) add(iv gpu.Interval) {
	s.energy += iv.Energy
	for _, c := range iv.Charges {
		if c.Kind.HasAccount() {
			s.accounts[c.AccountKey] = s.accounts[c.AccountKey].Plus(c.Energy)
			s.idle[c.AccountKey] += c.Idle
		}
	}
	for r, e := range iv.Unattributed {
		s.unattributed[r] += e
	}
}

// explains checks that the intervals between two consecutive books explain every difference between the books,
// including the energy of retired accounts.
func (m *machine) explains(was, now *gpu.Book, intervals iter.Seq[gpu.Interval]) {
	m.t.Helper()
	got := newSums()
	for iv := range intervals {
		if iv.To.Boot > was.Settled.Boot && iv.To.Boot <= now.Settled.Boot {
			got.add(iv)
			m.explainsItself(iv)
		}
	}
	want := newSums()
	want.energy = now.Energy - was.Energy
	for r := range now.Unattributed {
		want.unattributed[r] = now.Unattributed[r] - was.Unattributed[r]
	}
	retired := now.Retired - was.Retired
	keys := make(map[gpu.AccountKey]bool)
	for _, a := range slices.Concat(was.Accounts, now.Accounts) {
		keys[a.AccountKey] = true
	}
	maps.Copy(keys, boolKeys(got.accounts))
	for key := range keys {
		before, after := account(was, key), find(now, key)
		if after == nil { // the account was charged and retired in one settlement
			retired -= before.Energy.Sum() + got.accounts[key].Sum()
			delete(got.accounts, key)
			delete(got.idle, key)
			continue
		}
		for method, e := range after.Energy {
			by := want.accounts[key]
			by[method] = e - before.Energy[method]
			want.accounts[key] = by
		}
		want.idle[key] = after.Idle - before.Idle
		got.accounts[key] = got.accounts[key].Plus(gpu.ByMethod{})
		got.idle[key] += 0
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(sums{})); diff != "" || retired != 0 {
		m.t.Fatalf("the intervals do not explain the book (%d mJ retired otherwise; -want +got):\n%s", retired, diff)
	}
}

func boolKeys(of map[gpu.AccountKey]gpu.ByMethod) map[gpu.AccountKey]bool {
	keys := make(map[gpu.AccountKey]bool)
	for k := range of {
		keys[k] = true
	}
	return keys
}

func account(b *gpu.Book, key gpu.AccountKey) *gpu.Account {
	if a := find(b, key); a != nil {
		return a
	}
	return &gpu.Account{}
}

// The parts and the charges of an interval must each add up to the energy of the interval. The idle energy must be the
// idle power times the idle time.
func (m *machine) explainsItself(iv gpu.Interval) {
	m.t.Helper()
	own := newSums()
	own.add(iv)
	sum := gpu.Millijoules(0)
	for _, e := range own.accounts {
		sum += e.Sum()
	}
	for _, e := range own.unattributed {
		sum += e
	}
	var idle, parts gpu.Millijoules
	for _, p := range iv.Parts {
		idle += p.Idle
		parts += p.Idle + p.Busy
	}
	if len(iv.Parts) == 0 {
		parts = iv.Unattributed[gpu.Gap]
	}
	if sum != iv.Energy || parts != iv.Energy {
		m.t.Fatalf("charges sum to %d mJ, parts to %d mJ: %+v", sum, parts, iv)
	}
	exact := float64(iv.IdlePower.Power) * (1 - iv.Busy) * iv.To.Sub(iv.From).Seconds() * 1000
	want := min(float64(iv.Energy), exact)
	switch {
	case iv.BusySource == gpu.BusyUnknown:
		want = 0
	case iv.AtRest:
		want = float64(iv.Energy)
	}
	if off := float64(idle) - want; off < -1 || off > 1 {
		m.t.Fatalf("the idle part is %d mJ, want %f: %+v", idle, want, iv)
	}
}

// The first of two holders works in every second tick.
func stream(ticks int) iter.Seq[ledger.Observation] {
	first, second := process(21, train), process(22, serve)
	return func(yield func(ledger.Observation) bool) {
		for i := range ticks {
			o := look(float64(i), []*gpu.Process{first, second}, holds(train, 2), holds(serve, 1))
			if i%2 == 1 {
				o.Activity = []ledger.Activity{{Process: first, Span: o.Sampled, Busy: 400 * time.Millisecond}}
			}
			o.PowerLimit = 700
			if !yield(o) {
				return
			}
		}
	}
}

func explained(e ledger.Explain) *ledger.Ledger {
	return ledger.New(ledger.Config{Tick: time.Second, Retention: 5 * time.Minute, Explain: e})
}

func run(l *ledger.Ledger, observations iter.Seq[ledger.Observation]) iter.Seq[gpu.Interval] {
	for o := range observations {
		l.Observe(o)
		l.Settle(o.At, unresolved)
	}
	return l.State().Books[uuid].Intervals
}

// The expected values were computed by hand. The GPU draws 300 W. Two owners hold 2 replicas and 1 replica. The first
// owner is active for 0.4 s.
func TestIntervals(t *testing.T) {
	l := explained(ledger.Explain{Period: time.Hour, Bytes: 1 << 20})
	all := slices.Collect(run(l, stream(10)))
	if len(all) != 9 {
		t.Fatalf("%d intervals, want 9", len(all))
	}
	iv := all[8]
	idle := gpu.Millijoules(float64(iv.IdlePower.Power)*600 + 0.5)
	want := gpu.Interval{
		From: gpu.Instant{Wall: at(8).Wall.UTC(), Boot: at(8).Boot}, To: gpu.Instant{Wall: at(9).Wall.UTC(), Boot: at(9).Boot},
		Energy: 300_000, Listed: true, Allocated: true,
		Busy: 0.4, BusySource: gpu.BusyProcesses, IdlePower: iv.IdlePower,
		Parts: []gpu.IntervalPart{{Slices: 1, Idle: idle, Busy: 300_000 - idle, Held: true}},
		Charges: []gpu.Charge{
			{AccountKey: gpu.AccountKey{Owner: train}, Holding: 2, Activity: 400 * time.Millisecond, Idle: (idle*2 + 1) / 3, Energy: gpu.ByMethod{gpu.Shared: 300_000 - idle, gpu.Allocated: (idle*2 + 1) / 3}},
			{AccountKey: gpu.AccountKey{Owner: serve}, Holding: 1, Idle: idle - (idle*2+1)/3, Energy: gpu.ByMethod{gpu.Allocated: idle - (idle*2+1)/3}},
		},
	}
	if diff := cmp.Diff(want, iv); diff != "" {
		t.Errorf("interval (-want +got):\n%s", diff)
	}
	if want := (gpu.IdlePower{Power: 700. / 8, Source: gpu.IdleLimit}); iv.IdlePower != want {
		t.Errorf("the idle power is %v, want %v", iv.IdlePower, want)
	}
}

func TestIntervalsOff(t *testing.T) {
	for _, e := range []ledger.Explain{{}, {Period: time.Hour}, {Bytes: 1 << 20}} {
		if run(explained(e), stream(3)) != nil {
			t.Errorf("%+v: intervals are kept", e)
		}
	}
}

// If the intervals exceed the memory limit, the ledger keeps only the newest intervals.
func TestIntervalLimits(t *testing.T) {
	for _, tt := range []struct {
		e           ledger.Explain
		least, most int
	}{
		{ledger.Explain{Period: time.Minute, Bytes: 1 << 20}, 60, 60},
		{ledger.Explain{Period: time.Hour, Bytes: 16 << 10}, 60, 250},
		{ledger.Explain{Period: time.Hour, Bytes: 100}, 0, 0},
	} {
		var all []gpu.Interval
		for iv := range run(explained(tt.e), stream(1000)) {
			all = append(all, iv)
		}
		if len(all) < tt.least || len(all) > tt.most {
			t.Errorf("%+v: %d intervals are kept, want %d to %d", tt.e, len(all), tt.least, tt.most)
		}
		for i, iv := range all {
			if want := at(float64(999 - len(all) + 1 + i)).Boot; iv.To.Boot != want {
				t.Fatalf("%+v: interval %d ends at %v, want %v", tt.e, i, iv.To.Boot, want)
			}
		}
	}
}

// Published intervals must not change when the ledger drops intervals. The state file must contain no intervals.
func TestIntervalsImmutable(t *testing.T) {
	l := explained(ledger.Explain{Period: time.Hour, Bytes: 8 << 10})
	view := run(l, stream(100))
	before := slices.Collect(view)
	run(l, func(yield func(ledger.Observation) bool) {
		for o := range stream(1000) {
			if o.At.Boot > at(99).Boot && !yield(o) {
				return
			}
		}
	})
	if diff := cmp.Diff(before, slices.Collect(view)); diff != "" || len(before) < 20 {
		t.Errorf("%d published intervals changed (-before +after):\n%s", len(before), diff)
	}
	for r := range l.State().Records() {
		if text, err := json.Marshal(r); err != nil || strings.Contains(string(text), "ntervals") {
			t.Errorf("record of the state: %s, error %v", text, err)
		}
	}
}

// With a thousand owners on a GPU, the memory of its intervals must be close to the limit, according to the Go runtime.
func TestIntervalMemory(t *testing.T) {
	var crowd []*gpu.Process
	var held []gpu.Allocation
	for i := range 1000 {
		o := gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml", Name: fmt.Sprintf("train-%d", i), UID: fmt.Sprintf("uid-%d", i), Part: "main"}
		crowd, held = append(crowd, process(uint32(i+1), o)), append(held, holds(o, 2))
	}
	const ticks = 40
	used := func(e ledger.Explain) uint64 {
		l := explained(e)
		for i := range ticks {
			o := look(float64(i), crowd, held...)
			l.Observe(o)
			l.Settle(o.At, unresolved)
		}
		return heap(l)
	}
	const limit = 1 << 20
	without, with := used(ledger.Explain{}), used(ledger.Explain{Period: time.Hour, Bytes: limit})
	if more := int64(with) - int64(without); more < limit/4 || more > limit*11/10 {
		t.Errorf("the intervals take %d bytes of memory, want %d to %d", more, limit/4, limit*11/10)
	}
}

// heap keeps the ledger reachable, so that the result includes it.
func heap(l *ledger.Ledger) uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	runtime.KeepAlive(l)
	return stats.HeapAlloc
}
