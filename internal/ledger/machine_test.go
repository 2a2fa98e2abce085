package ledger_test

import (
	"encoding/json"
	"errors"
	"maps"
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// A machine applies random events to simulated boards. The ledger gets only observations of the boards. After every
// event, the machine checks the invariants.
type machine struct {
	t   *testing.T
	cfg ledger.Config
	l   *ledger.Ledger

	now    time.Duration
	boards []*board
	starts uint64                      // number of processes started so far
	named  map[gpu.ProcessID]gpu.Owner // final owners by process, including owners that the ledger learns later
	known  bool                        // set if the kubelet responds
}

func newMachine(t *testing.T) *machine {
	cfg := ledger.Config{Tick: time.Second, Retention: 30 * time.Second, MaxProcesses: 6, Profiling: true, Explain: ledger.Explain{Period: 2 * time.Minute, Bytes: 16 << 10}}
	m := &machine{
		t: t, cfg: cfg, l: ledger.New(cfg), now: time.Hour,
		boards: []*board{newBoard("GPU-1"), newBoard("GPU-2")},
		named:  map[gpu.ProcessID]gpu.Owner{}, known: true,
	}
	for _, b := range m.boards {
		m.show(b, m.look(b, seesAll), true)
	}
	return m
}

// The list is short, so that many events affect one container.
var containers = []gpu.Owner{
	train, serve,
	{Kind: gpu.OwnerPod, Scope: "ml", Name: "train-0", UID: "uid-train", Part: "sidecar"},
	{Kind: gpu.OwnerPod, Scope: "ml", Name: "train-0", UID: "uid-again", Part: "main"},
	gpu.Unit{Manager: "slurm", Name: "4711"}.Owner(),
}

// Two layouts use the same instance ids.
var layouts = []*gpu.Partitioning{
	nil,
	{Slices: 7, Instances: []gpu.Partition{{ID: "1", Slices: 3}, {ID: "2", Slices: 4}}},
	{Slices: 7, Instances: []gpu.Partition{{ID: "2", Slices: 1}, {ID: "3", Slices: 2}, {ID: "5", Slices: 3}}},
	{Slices: 7},
}

// The bits of sight select the values that the ledger observes. x and y select the details of the event.
func (m *machine) event(kind, sight, x, y byte) {
	b, pid := m.boards[kind>>7], uint32(x%5)+1
	switch kind % 14 {
	case 0, 1, 2, 3: // time passes, with or without activity
		m.pass(time.Duration(y%3+1)*500*time.Millisecond, 100+gpu.Watts(x)*2)
		m.tick(b, sight, y)
	case 4: // a process starts; its owner may become known later, and an earlier process may have had its PID
		m.starts++
		id := gpu.ProcessID{PID: pid, Start: m.starts}
		b.processes[pid] = &gpu.Process{ID: id, Name: "p"}
		if y%4 != 0 {
			m.name(id, y)
		}
	case 5: // a process ends
		if p, ok := b.processes[pid]; ok {
			p = p.OwnedBy(m.named[p.ID])
			b.ended = append(b.ended[max(0, len(b.ended)-1):], p) // the samples may still report the process
			delete(b.processes, pid)
		}
	case 6: // pending owners become known
		for _, p := range m.current(b) {
			if p.Owner.Kind == gpu.OwnerPending {
				m.name(p.ID, y)
			}
		}
	case 7: // the allocations change
		b.allocate(x, y)
	case 8: // the kubelet stops or resumes responding, or the MIG layout changes
		if y%4 == 3 {
			b.mig = layouts[int(x)%len(layouts)]
		} else {
			m.known = !m.known
		}
	case 9: // one wrong reading
		m.glitch(b, sight, x)
	case 10: // the driver is reloaded
		m.reload(b, sight, gpu.Millijoules(x)*1000)
	case 11: // no observation for a while
		m.pass(time.Duration(x%60+1)*time.Second, 250)
		m.show(b, m.look(b, sight), true)
	case 12: // the exporter restarts from its saved state
		m.restart(sight)
	case 13: // the counter cannot be read or is not refreshed for some ticks
		if y%2 == 1 {
			m.hold(b, sight, int(x%8), y)
			return
		}
		for i := range int(x % 16) {
			m.pass(time.Second, 200)
			m.tick(b, bits.RotateLeft8(sight, i)&^seesEnergy, y)
		}
	}
}

// The second board draws slightly more power.
func (m *machine) pass(d time.Duration, w gpu.Watts) {
	m.now += d
	for i, b := range m.boards {
		b.counter += gpu.Millijoules((float64(w) + 50*float64(i)) * d.Seconds() * 1000)
		b.throttled[gpu.ThrottleThermal] += d * time.Duration(int(w)%3) / 2 // throttled for all, for half or for none of the time
		b.throttled[gpu.ThrottlePowerBrake] += d * time.Duration(int(w)%2)
	}
}

func (m *machine) name(id gpu.ProcessID, y byte) {
	owners := []gpu.Owner{{Kind: gpu.OwnerHost}, {Kind: gpu.OwnerUnmapped}}
	for _, c := range containers {
		owners = append(owners, in(c))
	}
	owners = append(owners, in(gpu.Owner{Kind: gpu.OwnerPod, Scope: train.Scope, Name: train.Name, UID: train.UID})) // only the pod of the process is known
	m.named[id] = owners[int(y)%len(owners)]
}

func (m *machine) owner(id gpu.ProcessID) gpu.Owner { return m.named[id] }

func (m *machine) current(b *board) []*gpu.Process {
	var out []*gpu.Process
	for _, pid := range slices.Sorted(maps.Keys(b.processes)) {
		p := b.processes[pid]
		out = append(out, p.OwnedBy(m.named[p.ID]))
	}
	return out
}

// A value is missing from an observation if both of its bits in sight are zero.
const (
	seesUtilization byte = 0b00_00_00_11
	seesProcesses   byte = 0b00_00_11_00
	seesActivity    byte = 0b00_11_00_00
	seesEnergy      byte = 0b11_00_00_00
	seesAll         byte = 0b01_01_01_01
)

// One in three known utilisation values is above 0.
func (m *machine) look(b *board, sight byte) ledger.Observation {
	o := ledger.Observation{
		UUID:        b.uuid,
		At:          gpu.Instant{Wall: time.Unix(1_800_000_000, 0).Add(m.now), Boot: m.now},
		Energy:      new(b.counter),
		Throttled:   new(b.throttled),
		MaxPower:    700,
		Utilization: [4]*float64{nil, new(0.0), new(0.0), new(0.5)}[sight&seesUtilization],

		ProcessesKnown: sight&seesProcesses != 0,
		ActivityKnown:  sight&seesActivity != 0,
		Allocations:    b.allocations, AllocationsKnown: m.known, Alive: map[string]bool{},
	}
	for _, a := range b.allocations {
		o.Alive[a.Owner.UID] = o.Alive[a.Owner.UID] || a.Live
	}
	if o.ProcessesKnown {
		o.Processes = m.current(b)
	}
	m.sample(b, &o, sight)
	b.divide(&o, sight)
	b.profile(&o, sight)
	if sight%11 == 0 {
		o.Throttled = nil
	}
	return o
}

// The samples begin at the end of the previous samples, or later if the driver's ring buffer overflowed. They end up to
// 240 ms before the observation.
func (m *machine) sample(b *board, o *ledger.Observation, sight byte) {
	from := b.sampled
	if sight%3 > 0 {
		from = max(from, m.now-10*time.Second)
	}
	o.Sampled = gpu.Span{From: from, To: max(from, m.now-time.Duration(sight%5)*60*time.Millisecond)}
	if o.ActivityKnown {
		b.sampled = o.Sampled.To
	}
}

func (m *machine) tick(b *board, sight, y byte) {
	o := m.look(b, sight)
	if sight&seesEnergy == 0 {
		o.Energy = nil
	}
	for _, p := range append(m.current(b), b.ended...) {
		if busy := o.Sampled.Len() / 256 * time.Duration(y); o.ActivityKnown && busy > 0 && y>>(p.ID.PID%8)&1 == 1 {
			o.Activity = append(o.Activity, ledger.Activity{Process: p, Span: o.Sampled, Busy: busy})
		}
	}
	if vanished := (gpu.ProcessID{PID: 90 + uint32(y%3)}); o.ActivityKnown && o.Sampled.Len() > 0 && y%8 == 5 {
		m.named[vanished] = gpu.Owner{Kind: gpu.OwnerUnmapped}
		p := &gpu.Process{ID: vanished, Owner: m.named[vanished]}
		o.Activity = append(o.Activity, ledger.Activity{Process: p, Span: o.Sampled, Busy: o.Sampled.Len() / 4})
	}
	for i := range o.Activity {
		o.Activity[i].Served = sight%7 == 6
	}
	for i := range o.Instances {
		o.Instances[i] = time.Duration(y%3) * 400 * time.Millisecond
	}
	m.show(b, o, true)
}

// show passes o to the ledger, and then a different observation with the same time. The ledger must ignore the second
// observation.
func (m *machine) show(b *board, o ledger.Observation, right bool) {
	m.l.Observe(o)
	again := o
	again.Energy, again.Processes, again.Activity, again.Throttled = new(b.counter+1), nil, nil, new(gpu.ThrottledTimes{})
	m.l.Observe(again)
	b.note(o, right)
	m.l.Settle(o.At, m.owner)
	m.check()
}

func (m *machine) glitch(b *board, sight, x byte) {
	m.pass(time.Second, 300)
	o := m.look(b, sight)
	*o.Energy = []gpu.Millijoules{b.counter / 2, b.counter + 1e12}[x%2]
	if *o.Energy < b.last.counter || *o.Energy > b.counter {
		m.show(b, o, false)
	}
	m.pass(time.Second, 300)
	m.show(b, m.look(b, bits.RotateLeft8(sight, int(x))), true)
}

// hold keeps a board's counter unchanged for some ticks. Then it sets the counter to the true value.
func (m *machine) hold(b *board, sight byte, ticks int, y byte) {
	m.pass(time.Second, 200)
	m.tick(b, sight|seesEnergy, y)
	held := b.counter
	for i := range ticks {
		m.pass(time.Second, 200)
		drawn := b.counter
		b.counter = held
		m.tick(b, bits.RotateLeft8(sight, i), y)
		b.counter = drawn
	}
	m.pass(time.Second, 200)
	m.tick(b, sight|seesEnergy, y)
}

// reload restarts the counter. The ledger accepts the new values after two readings. It cannot know the energy before
// the first of these readings. reload does nothing if the ledger could not distinguish the new values from the old
// ones.
func (m *machine) reload(b *board, sight byte, fresh gpu.Millijoules) {
	if fresh+1_000_000 >= b.last.counter {
		return
	}
	m.pass(time.Second, 300)
	b.counter, b.reloaded = fresh, true
	m.show(b, m.look(b, sight), true)
	m.pass(time.Second, 300)
	m.show(b, m.look(b, bits.RotateLeft8(sight, 2)), true)
}

// The saved state contains only settled intervals. If the driver was reloaded in another interval, the new ledger sees
// the counter decrease again.
func (m *machine) restart(sight byte) {
	s := saved(m.t, m.l)
	if err := s.Check(m.now); err != nil {
		m.t.Fatal(err)
	}
	m.l = ledger.Restore(m.cfg, s)
	for _, b := range m.boards {
		b.restart()
	}
	m.check()
	for _, b := range m.boards {
		m.pass(time.Second, 100)
		switch missing := b.last.counter - b.counter; {
		case missing > 1_000_000:
			m.reload(b, sight, b.counter)
		case missing > 0:
			m.pass(10*time.Second, 100) // until the counter exceeds its old value
		}
		m.show(b, m.look(b, sight), true)
	}
}

// saved writes the state of a ledger in the format of the state file, and reads it again.
func saved(t *testing.T, l *ledger.Ledger) ledger.State {
	t.Helper()
	var saved ledger.Builder
	for r := range l.State().Records() {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var read ledger.Record
		if err := errors.Join(json.Unmarshal(data, &read), saved.Add(read)); err != nil {
			t.Fatal(err)
		}
	}
	return saved.State
}
