package ledger_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// A machine drives a ledger with a stream of random events and knows the board
// that the ledger sees only through its counter. After every event it checks what
// must always hold.
type machine struct {
	t   *testing.T
	cfg ledger.Config
	l   *ledger.Ledger

	now     time.Duration
	counter gpu.Millijoules // the board's
	base    gpu.Millijoules // the board's counter minus what the book should hold
	seen    gpu.Millijoules // the counter as it was last shown to the ledger
	reads   []time.Duration // when it was shown truly, since the last restart
	settled map[gpu.Millijoules]bool

	processes   map[uint32]gpu.Process
	named       map[gpu.ProcessID]gpu.Owner // final owners, late ones too
	allocations []gpu.Allocation
	known       bool
	starts      uint64

	shown map[string]gpu.Millijoules // counters as last shown
}

func newMachine(t *testing.T) *machine {
	cfg := ledger.Config{Tick: time.Second, Retention: 30 * time.Second, MaxProcesses: 6}
	m := &machine{
		t: t, cfg: cfg, l: ledger.New(cfg), now: time.Hour, counter: 50_000_000, known: true,
		settled: map[gpu.Millijoules]bool{}, processes: map[uint32]gpu.Process{},
		named: map[gpu.ProcessID]gpu.Owner{}, shown: map[string]gpu.Millijoules{},
	}
	m.base = m.counter
	m.observe(m.counter, nil)
	return m
}

// containers are few, so that events meet each other.
var containers = []gpu.Container{
	train, serve,
	{Namespace: "ml", Pod: "train-0", PodUID: "uid-train", Container: "sidecar"},
	{Namespace: "ml", Pod: "train-0", PodUID: "uid-again", Container: "main"},
}

func (m *machine) instant() gpu.Instant {
	return gpu.Instant{Wall: time.Unix(1_800_000_000, 0).Add(m.now), Boot: m.now}
}

func (m *machine) owner(id gpu.ProcessID) gpu.Owner { return m.named[id] }

// event applies one random event; a and b choose its details.
func (m *machine) event(kind, a, b byte) {
	pid := uint32(a%5) + 1
	switch kind % 14 {
	case 0, 1, 2, 3: // time passes, with or without activity
		m.pass(time.Duration(b%3+1)*500*time.Millisecond, 100+gpu.Watts(a)*2)
		m.observe(m.counter, m.sampled(b))
	case 4: // a process starts; its name may come late; a PID may be reused
		m.starts++
		id := gpu.ProcessID{PID: pid, Start: m.starts}
		m.processes[pid] = gpu.Process{ID: id, Name: "p"}
		if b%4 != 0 {
			m.name(id, b)
		}
	case 5: // a process ends
		delete(m.processes, pid)
	case 6: // a late name
		for _, id := range m.unnamed() {
			m.name(id, b)
		}
	case 7: // the kubelet gives and takes
		m.allocate(a, b)
	case 8: // the kubelet does not answer, or does again
		m.known = !m.known
	case 9: // one reading that is wrong
		m.pass(time.Second, 300)
		if wrong := []gpu.Millijoules{m.counter / 2, m.counter + 1e12}[a%2]; wrong < m.seen || wrong > m.counter {
			m.observe(wrong, nil)
		}
		m.pass(time.Second, 300)
		m.observe(m.counter, nil)
	case 10: // the driver is loaded again: two readings confirm it
		fresh := gpu.Millijoules(a) * 1000
		if fresh+300_000 >= m.seen {
			return // could not be told from the old counter
		}
		m.now, m.counter = m.now+time.Second, fresh
		m.base += m.counter - m.seen // what was consumed since is not known
		m.observe(m.counter, nil)
		m.pass(time.Second, 300)
		m.observe(m.counter, nil)
	case 11: // nobody looks for a while
		m.pass(time.Duration(a%60+1)*time.Second, 250)
		m.observe(m.counter, nil)
	case 12: // the exporter restarts from its saved state
		m.restart()
	case 13: // a tick without a counter, or one that comes twice
		m.pass(500*time.Millisecond, 200)
		o := m.look(0, nil)
		o.Energy = nil
		m.l.Observe(o)
		m.l.Observe(m.look(m.counter, nil)) // not newer: ignored
		m.settle()
	}
}

// pass lets the board draw power for some time.
func (m *machine) pass(d time.Duration, w gpu.Watts) {
	m.now += d
	m.counter += gpu.Millijoules(float64(w) * d.Seconds() * 1000)
}

func (m *machine) name(id gpu.ProcessID, b byte) {
	owners := []gpu.Owner{{Kind: gpu.OwnerHost}, {Kind: gpu.OwnerUnmapped}}
	for _, c := range containers {
		owners = append(owners, in(c))
	}
	m.named[id] = owners[int(b)%len(owners)]
}

func (m *machine) unnamed() []gpu.ProcessID {
	var out []gpu.ProcessID
	for _, pid := range slices.Sorted(maps.Keys(m.processes)) {
		if id := m.processes[pid].ID; m.named[id].Kind == gpu.OwnerPending {
			out = append(out, id)
		}
	}
	return out
}

func (m *machine) allocate(a, b byte) {
	m.allocations = nil
	for i, c := range containers {
		if a>>i&1 == 1 {
			h := holds(c, int(b>>i&1)+1)
			h.Live = b>>(i+4)&1 == 0
			m.allocations = append(m.allocations, h)
		}
	}
}

func (m *machine) sampled(b byte) []ledger.Activity {
	var out []ledger.Activity
	for _, pid := range slices.Sorted(maps.Keys(m.processes)) {
		if b>>(pid%8)&1 == 1 {
			out = append(out, ledger.Activity{Process: m.current(pid), Weight: uint32(b) * pid})
		}
	}
	return out
}

func (m *machine) current(pid uint32) gpu.Process {
	p := m.processes[pid]
	p.Owner = m.named[p.ID]
	return p
}

func (m *machine) look(counter gpu.Millijoules, activity []ledger.Activity) ledger.Observation {
	o := ledger.Observation{
		UUID: uuid, At: m.instant(), Energy: &counter, MaxPower: 700, Utilization: new(0.0),
		ProcessesKnown: true, Activity: activity, ActivityKnown: true,
		Allocations: m.allocations, AllocationsKnown: m.known,
	}
	for _, pid := range slices.Sorted(maps.Keys(m.processes)) {
		o.Processes = append(o.Processes, m.current(pid))
	}
	return o
}

func (m *machine) observe(counter gpu.Millijoules, activity []ledger.Activity) {
	m.l.Observe(m.look(counter, activity))
	m.seen = counter
	if counter == m.counter {
		m.reads = append(m.reads, m.now)
	}
	m.settle()
}

func (m *machine) settle() {
	m.settled[m.counter-m.base] = true
	m.l.Settle(m.instant(), m.owner)
	m.check()
}

// restart goes through the state's file format, as a real restart does. Intervals
// that were not settled are not saved: if the driver was loaded again in one of
// them, the counter falls once more after the restart.
func (m *machine) restart() {
	saved := m.l.State()
	data, err := json.Marshal(saved)
	if err != nil {
		m.t.Fatal(err)
	}
	var s ledger.State
	if err := json.Unmarshal(data, &s); err != nil {
		m.t.Fatal(err)
	}
	m.l, m.reads = ledger.Restore(m.cfg, s), nil
	m.check()

	b := saved.Books[uuid]
	m.base = b.Base.Energy - b.Energy
	m.pass(time.Second, 100)
	if first := m.counter; first < b.Base.Energy {
		m.observe(first, nil)
		m.pass(time.Second, 100)
		if m.counter < b.Base.Energy {
			m.base = first - b.Energy
		} else {
			m.reads = nil // the first one cannot be told from a glitch
		}
	}
	m.observe(m.counter, nil)
}

// check holds the book against the board and against what was shown before.
func (m *machine) check() {
	b := m.l.Books()[uuid]
	if b == nil {
		return // not observed for the retention time
	}
	if b.Energy != b.Sum() {
		m.t.Fatalf("out of balance by %d mJ: %+v", b.Energy-b.Sum(), b)
	}
	if !m.settled[b.Energy] {
		m.t.Fatalf("the book holds %d mJ, which the board never showed; it is at %d", b.Energy, m.counter-m.base)
	}
	for _, read := range m.reads {
		if m.now-read >= 10*time.Second && b.Settled.Boot < read {
			m.t.Fatalf("not settled up to a reading of %v ago", m.now-read)
		}
	}
	now := map[string]gpu.Millijoules{"energy": b.Energy, "retired": b.Retired}
	for r, e := range b.Unattributed {
		now[gpu.Reason(r).String()] = e
	}
	accounts := 0
	for _, a := range b.Containers {
		key := fmt.Sprint(a.AccountKey, a.Opened.UnixNano())
		for i, e := range a.Energy {
			now[key+gpu.Method(i).String()] = e
		}
		now[key+"idle"], now[key+"allocated"], now[key+"active"] = a.Idle, gpu.Millijoules(a.Allocated), gpu.Millijoules(a.Active)
		var inside gpu.Millijoules
		seen := map[uint32]bool{}
		for _, p := range a.Processes {
			if seen[p.PID] {
				m.t.Fatalf("two accounts of PID %d in one container: %+v", p.PID, a)
			}
			seen[p.PID] = true
			inside += p.Energy.Sum()
			now[fmt.Sprint(key, p.ProcessID, p.Folded, p.Opened.UnixNano())] = p.Energy.Sum()
			if !p.Folded {
				accounts++
			}
		}
		if inside > a.Energy.Sum() || a.Idle > a.Energy.Sum() {
			m.t.Fatalf("processes %d mJ, idle %d mJ, container %d mJ", inside, a.Idle, a.Energy.Sum())
		}
	}
	if accounts > m.cfg.MaxProcesses {
		m.t.Fatalf("%d process accounts, the cap is %d", accounts, m.cfg.MaxProcesses)
	}
	for k, v := range now {
		if v < m.shown[k] || v < 0 {
			m.t.Fatalf("%s fell from %d to %d", k, m.shown[k], v)
		}
		m.shown[k] = v
	}
}

// FuzzBooks: the books balance, follow the board and never fall, whatever happens.
func FuzzBooks(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		stream := make([]byte, 300)
		for i := range stream {
			stream[i] = byte(r.Uint32())
		}
		f.Add(stream)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		m := newMachine(t)
		for len(stream) >= 3 {
			m.event(stream[0], stream[1], stream[2])
			stream = stream[3:]
		}
	})
}

// TestRandomBooks runs longer streams than the fuzzer's corpus holds.
func TestRandomBooks(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			m := newMachine(t)
			for range 400 {
				m.event(byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()))
			}
		})
	}
}
