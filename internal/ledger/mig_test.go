package ledger_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// divided is a GPU with seven slices, four of which are in use.
var divided = &gpu.Partitioning{Slices: 7, Instances: []gpu.Partition{
	{ID: "1", Profile: "3g.40gb", Slices: 3}, {ID: "2", Profile: "1g.10gb", Slices: 1},
}}

func onInstance(o ledger.Observation, instance string) ledger.Observation {
	o.Partitions, o.Places = divided, map[gpu.ProcessID]string{}
	for _, p := range o.Processes {
		o.Places[p.ID] = instance
	}
	o.ActivityKnown, o.Utilization = false, nil // as the driver reports it for a GPU in MIG mode
	return o
}

func holdsInstance(c gpu.Owner, instance string) gpu.Allocation {
	h := holds(c, 1)
	h.GPUInstance, h.Sharing = instance, gpu.SharingMIG
	return h
}

// The energy of a GPU is divided among its instances by slices. The energy of an instance is divided by the rules for a
// whole GPU.
func TestMIG(t *testing.T) {
	first, second, host := process(21, in(train)), process(31, in(serve)), process(11, gpu.Owner{Kind: gpu.OwnerHost})
	type amounts map[string]gpu.Millijoules
	tests := []struct {
		name        string
		processes   []*gpu.Process
		allocations []gpu.Allocation
		want        amounts
	}{
		{"nobody", nil, nil, amounts{"idle": 700_000}},
		{"one owner", []*gpu.Process{first}, nil, amounts{"train 1 allocated": 300_000, "idle": 400_000}},
		{"two owners on one instance", []*gpu.Process{first, second}, nil, amounts{
			"train 1 allocated": 150_000, "serve 1 allocated": 150_000, "idle": 400_000,
		}},
		{"held without a process", nil, []gpu.Allocation{holdsInstance(train, "1"), holdsInstance(serve, "2")}, amounts{
			"train 1 allocated": 300_000, "serve 2 allocated": 100_000, "idle": 300_000,
		}},
		{"one container on both instances", []*gpu.Process{first}, []gpu.Allocation{holdsInstance(train, "1"), holdsInstance(train, "2")}, amounts{
			"train 1 allocated": 300_000, "train 2 allocated": 100_000, "idle": 300_000,
		}},
		{"the whole GPU held", nil, []gpu.Allocation{holds(train, 1)}, amounts{
			"train 1 allocated": 300_000, "train 2 allocated": 100_000, "train  allocated": 300_000,
		}},
		{"a host process on an instance", []*gpu.Process{host}, nil, amounts{"host": 300_000, "idle": 400_000}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at := func(s float64) ledger.Observation {
				o := onInstance(look(s, tt.processes, tt.allocations...), "1")
				o.Energy = new(gpu.Millijoules(s * 700_000))
				return o
			}
			b := ask(t, newLedger(), at(0), at(1))
			got := amounts{}
			for _, a := range b.Accounts {
				for m, e := range a.Energy {
					if e != 0 {
						got[map[string]string{"train-0": "train ", "serve-0": "serve "}[a.Name]+a.GPUInstance+" "+gpu.Method(m).String()] = e
					}
				}
			}
			for r, e := range b.Unattributed {
				if e != 0 {
					got[gpu.Reason(r).String()] = e
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("amounts (-want +got):\n%s", diff)
			}
		})
	}
}

// halves is a GPU with instances of three and four slices, and one free slice.
var halves = &gpu.Partitioning{Slices: 8, Instances: []gpu.Partition{
	{ID: "1", Profile: "3g.40gb", Slices: 3}, {ID: "2", Profile: "4g.40gb", Slices: 4},
}}

// The numbers come from the worked example in docs/energy.md. The weight of an instance is its busy time times its
// number of slices.
func TestMIGActivity(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	both := func(o ledger.Observation) ledger.Observation {
		o.Partitions, o.Places = new(*halves), map[gpu.ProcessID]string{p.ID: "1", q.ID: "2"}
		return o
	}
	type account struct {
		energy       gpu.ByMethod
		idle         gpu.Millijoules
		active, held time.Duration
	}
	tests := []struct {
		name         string
		instances    map[string]time.Duration
		unknown      bool
		first, other account
		free         gpu.Millijoules
	}{
		{
			"both busy all the time",
			map[string]time.Duration{"1": time.Second, "2": time.Second},
			false,
			account{gpu.ByMethod{gpu.Shared: 300_000}, 0, time.Second, time.Second},
			account{gpu.ByMethod{gpu.Shared: 400_000}, 0, time.Second, time.Second},
			0,
		},
		{
			"one instance half as busy",
			map[string]time.Duration{"1": time.Second, "2": time.Second / 2},
			false,
			account{gpu.ByMethod{gpu.Shared: 420_000}, 0, time.Second, time.Second},
			account{gpu.ByMethod{gpu.Shared: 280_000}, 0, time.Second, time.Second},
			0,
		},
		{
			"one idle",
			map[string]time.Duration{"1": time.Second / 10, "2": 0},
			false,
			account{gpu.ByMethod{gpu.Shared: 700_000}, 0, time.Second, time.Second},
			account{gpu.ByMethod{}, 0, 0, time.Second},
			0,
		},
		{
			"both idle",
			map[string]time.Duration{"1": 0, "2": 0},
			false,
			account{gpu.ByMethod{gpu.Allocated: 262_500}, 262_500, 0, time.Second},
			account{gpu.ByMethod{gpu.Allocated: 350_000}, 350_000, 0, time.Second},
			87_500,
		},
		{
			"no signal", nil, true,
			account{gpu.ByMethod{gpu.Allocated: 262_500}, 0, 0, time.Second},
			account{gpu.ByMethod{gpu.Allocated: 350_000}, 0, 0, time.Second},
			87_500,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at := func(s float64) ledger.Observation {
				o := both(onInstance(look(s, []*gpu.Process{p, q}, holdsInstance(train, "1"), holdsInstance(serve, "2")), ""))
				o.Energy = new(gpu.Millijoules(s * 700_000))
				o.Instances, o.InstancesKnown = tt.instances, !tt.unknown
				return o
			}
			b := ask(t, newLedger(), at(0), at(1))
			var got []account
			for _, a := range b.Accounts {
				got = append(got, account{a.Energy, a.Idle, a.Active, a.Allocated})
			}
			if diff := cmp.Diff([]account{tt.first, tt.other}, got, cmp.AllowUnexported(account{})); diff != "" {
				t.Errorf("accounts (-want +got):\n%s", diff)
			}
			if got := b.Unattributed[gpu.Idle]; got != tt.free {
				t.Errorf("idle %d mJ, want %d", got, tt.free)
			}
		})
	}
}

// Some drivers set all bits of an unknown number of slices.
func TestAbsurdSlices(t *testing.T) {
	absurd := &gpu.Partitioning{Slices: math.MaxUint32, Instances: []gpu.Partition{{ID: "1", Slices: math.MaxUint32}, {ID: "2", Slices: math.MaxUint32}}}
	p, q := process(21, in(train)), process(31, in(serve))
	at := func(s float64) ledger.Observation {
		o := look(s, []*gpu.Process{p, q})
		o.Partitions, o.Places = absurd, map[gpu.ProcessID]string{p.ID: "1", q.ID: "2"}
		const busy = 1<<31 + 1 // the sum over both instances of busy time times slices just exceeds 64 bits
		o.Instances, o.InstancesKnown = map[string]time.Duration{"1": busy, "2": busy}, true
		return o
	}
	b := ask(t, newLedger(), at(0), at(3))
	for _, a := range b.Accounts {
		if want := (gpu.ByMethod{gpu.Shared: 450_000}); a.Energy != want {
			t.Errorf("%s: %v, want %v", a.Name, a.Energy, want)
		}
	}
}

// If all instances of a GPU without free slices are always active, no energy must be idle.
func TestFullyBusy(t *testing.T) {
	full := &gpu.Partitioning{Slices: 7, Instances: []gpu.Partition{{ID: "1", Slices: 3}, {ID: "2", Slices: 4}}}
	p, q := process(21, in(train)), process(31, in(serve))
	at := func(s float64) ledger.Observation {
		o := count(look(s, []*gpu.Process{p, q}, holdsInstance(train, "1"), holdsInstance(serve, "2")), gpu.Millijoules(s*700_000))
		o.Partitions, o.Places = full, map[gpu.ProcessID]string{p.ID: "1", q.ID: "2"}
		o.Instances, o.InstancesKnown = map[string]time.Duration{"1": time.Second, "2": time.Second}, true
		return o
	}
	want := amounts{"energy": 700_000, "train 1 shared": 300_000, "serve 2 shared": 400_000}
	if diff := cmp.Diff(want, amountsOf(ask(t, newLedger(), at(0), at(1)))); diff != "" {
		t.Errorf("amounts (-want +got):\n%s", diff)
	}
}

// The activity of instances counts only if the layout did not change in the interval. Otherwise, the energy must be
// divided by the slices of the layout at the end of the interval.
func TestMIGRelayout(t *testing.T) {
	p := process(21, in(train))
	at := func(s float64, mig *gpu.Partitioning) ledger.Observation {
		o := onInstance(look(s, []*gpu.Process{p}, holdsInstance(train, "1")), "1")
		o.Partitions, o.Energy = mig, new(gpu.Millijoules(s*700_000))
		o.Instances, o.InstancesKnown = map[string]time.Duration{"1": time.Second}, true
		return o
	}
	b := ask(t, newLedger(), at(0, halves), at(1, halves), at(2, divided), at(3, divided))
	if want := (gpu.ByMethod{gpu.Shared: 1_400_000, gpu.Allocated: 300_000}); b.Accounts[0].Energy != want {
		t.Errorf("charged %v, want %v", b.Accounts[0].Energy, want)
	}
}

// Any change of the layout must reset the activity of all instances.
func TestMIGRelayouts(t *testing.T) {
	layout := func(slices int, instances ...gpu.Partition) *gpu.Partitioning {
		return &gpu.Partitioning{Slices: slices, Instances: instances}
	}
	three, four := halves.Instances[0], halves.Instances[1]
	tests := []struct {
		name   string
		before *gpu.Partitioning
		want   gpu.Millijoules // 700_000 if divided by activity, 262_500 if divided by slices
	}{
		{"the same", layout(8, three, four), 700_000},
		{"not divided", nil, 262_500},
		{"other slices of the GPU", layout(7, three, four), 262_500},
		{"other slices of an instance", layout(8, gpu.Partition{ID: "1", Profile: three.Profile, Slices: 4}, four), 262_500},
		{"another profile", layout(8, gpu.Partition{ID: "1", Profile: "3g.40gb+me", Slices: 3}, four), 262_500},
		{"another id", layout(8, gpu.Partition{ID: "3", Profile: three.Profile, Slices: 3}, four), 262_500},
		{"one instance fewer", layout(8, three), 262_500},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at := func(s float64, mig *gpu.Partitioning) ledger.Observation {
				o := count(look(s, nil, holdsInstance(train, "1")), gpu.Millijoules(s*700_000))
				o.Partitions, o.Instances, o.InstancesKnown = mig, map[string]time.Duration{"1": time.Second}, true
				return o
			}
			b := ask(t, newLedger(), at(0, tt.before), at(1, halves))
			if got := b.Accounts[0].Energy.Sum(); got != tt.want {
				t.Errorf("charged %d mJ, want %d: %+v", got, tt.want, b)
			}
		})
	}
}

// Slices without an instance must count as free, even if half of all slices are free.
func TestHalfDivided(t *testing.T) {
	half := func(s float64) ledger.Observation {
		o := onInstance(look(s, nil, holdsInstance(train, "1")), "1")
		o.Partitions = &gpu.Partitioning{Slices: 8, Instances: []gpu.Partition{{ID: "1", Profile: "4g.40gb", Slices: 4}}}
		return o
	}
	want := amounts{"energy": 300_000, "train 1 allocated": 150_000, "idle": 150_000}
	if diff := cmp.Diff(want, amountsOf(ask(t, newLedger(), half(0), half(1)))); diff != "" {
		t.Errorf("amounts (-want +got):\n%s", diff)
	}
}

// The activity of instances must count even if the ledger rejects the reading in the same observation.
func TestMIGGlitch(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	at := func(s float64, mJ gpu.Millijoules, first, second time.Duration, processes ...*gpu.Process) ledger.Observation {
		o := count(look(s, processes), mJ)
		o.Partitions, o.Places = halves, map[gpu.ProcessID]string{}
		for i, p := range processes {
			o.Places[p.ID] = halves.Instances[i].ID
		}
		o.ActivityKnown, o.Utilization = false, nil
		o.Instances, o.InstancesKnown = map[string]time.Duration{"1": first * time.Millisecond, "2": second * time.Millisecond}, true
		return o
	}
	b := ask(t, newLedger(), at(0, 0, 0, 0, p), at(1, 1e12, 400, 0, p), at(2, 1_400_000, 600, 1000, p, q))
	want := amounts{"energy": 1_400_000, "train 1 shared": 600_000, "serve 2 shared": 800_000, "rejected": 1}
	if diff := cmp.Diff(want, amountsOf(b)); diff != "" {
		t.Errorf("amounts (-want +got):\n%s", diff)
	}
}

// If the activity of processes is unknown, the energy of an active instance is divided by the rules for a whole GPU.
// Without processes, the holder pays for it.
func TestBusyInstance(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	tests := []struct {
		name        string
		processes   []*gpu.Process
		allocations []gpu.Allocation
		want        gpu.ByMethod // energy of the first container
	}{
		{"two owners", []*gpu.Process{p, q}, nil, gpu.ByMethod{gpu.Allocated: 150_000}},
		{"two owners, one holder", []*gpu.Process{p, q}, []gpu.Allocation{holdsInstance(serve, "1")}, gpu.ByMethod{}},
		{"no process", nil, []gpu.Allocation{holdsInstance(train, "1")}, gpu.ByMethod{gpu.Allocated: 300_000}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at := func(s float64) ledger.Observation {
				o := onInstance(look(s, tt.processes, tt.allocations...), "1")
				o.Instances, o.InstancesKnown = map[string]time.Duration{"1": time.Second, "2": 0}, true
				return o
			}
			if a := ask(t, newLedger(), at(0), at(1)).Accounts[0]; a.Energy != tt.want {
				t.Errorf("charged %v, want %v: %+v", a.Energy, tt.want, a)
			}
		})
	}
}

func TestEmptyMIG(t *testing.T) {
	at := func(s float64) ledger.Observation {
		o := onInstance(look(s, nil), "1")
		o.Partitions = &gpu.Partitioning{Instances: []gpu.Partition{{ID: "1"}, {ID: "2", Slices: -1}}}
		return o
	}
	if b := ask(t, newLedger(), at(0), at(1)); b.Unattributed[gpu.Idle] != 300_000 {
		t.Errorf("book: %+v, want 300000 mJ idle", b)
	}
}

// A process may run on an instance that is missing from the layout, for example because the instance was just
// destroyed. The process must pay for the free slices.
func TestNoSuchInstance(t *testing.T) {
	at := func(s float64) ledger.Observation {
		return onInstance(look(s, []*gpu.Process{process(21, in(train))}), "9")
	}
	b := ask(t, newLedger(), at(0), at(1))
	if len(b.Accounts) != 1 || b.Accounts[0].Energy[gpu.Allocated] == 0 || b.Accounts[0].GPUInstance != "" {
		t.Errorf("book: %+v, want one account with allocated energy and no instance", b)
	}
}

// If the layout changed in an interval, the energy must be divided by the layout at the end of the interval. If the
// activity is unknown, the energy must be divided among the instances by slices.
func TestReconfigured(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	look := func(s float64, m *gpu.Partitioning, places map[gpu.ProcessID]string, processes ...*gpu.Process) ledger.Observation {
		o := count(look(s, processes), gpu.Millijoules(s*700_000))
		o.Partitions, o.Places = m, places
		o.ActivityKnown, o.Utilization = m == nil, nil
		return o
	}
	two := &gpu.Partitioning{Slices: 7, Instances: []gpu.Partition{{ID: "1", Slices: 3}, {ID: "2", Slices: 4}}}
	one := &gpu.Partitioning{Slices: 7, Instances: []gpu.Partition{{ID: "0", Slices: 7}}}
	divided := func(s float64) ledger.Observation {
		return look(s, two, map[gpu.ProcessID]string{p.ID: "1", q.ID: "2"}, p, q)
	}
	joined := func(s float64) ledger.Observation {
		return look(s, one, map[gpu.ProcessID]string{p.ID: "0"}, p)
	}
	whole := func(s float64) ledger.Observation { return look(s, nil, nil, p) }
	play(t, []story{
		{
			"one instance instead of two",
			[]ledger.Observation{divided(0), divided(1), joined(2), joined(3)},
			amounts{"energy": 2_100_000, "train 1 allocated": 300_000, "serve 2 allocated": 400_000, "train 0 allocated": 1_400_000},
		},
		{
			"divided",
			[]ledger.Observation{whole(0), whole(1), divided(2), divided(3)},
			amounts{"energy": 2_100_000, "train exclusive": 700_000, "train 1 allocated": 600_000, "serve 2 allocated": 800_000},
		},
		{
			"made whole",
			[]ledger.Observation{divided(0), divided(1), whole(2), whole(3)},
			amounts{"energy": 2_100_000, "train 1 allocated": 300_000, "serve 2 allocated": 400_000, "train allocated": 350_000, "serve allocated": 350_000, "train exclusive": 700_000},
		},
	})
}

// The numbers come from the table in docs/energy.md. The GPU has seven slices and two instances, with three and two
// slices. Its learned idle power is 70 W.
func TestMIGInTwoParts(t *testing.T) {
	layout := &gpu.Partitioning{Slices: 7, Instances: []gpu.Partition{{ID: "1", Slices: 3}, {ID: "2", Slices: 2}}}
	processes := []*gpu.Process{process(21, in(train)), process(31, in(serve))}
	tests := []struct {
		name   string
		energy gpu.Millijoules
		busy   map[string]time.Duration // busy time by instance, or nil if unknown
		want   amounts
	}{
		{"both busy", 420_000, map[string]time.Duration{"1": time.Second, "2": time.Second}, amounts{
			"train 1 shared": 240_000, "serve 2 shared": 160_000, "idle": 20_000,
		}},
		{"one busy, the other busy for half of the time", 420_000, map[string]time.Duration{"1": time.Second, "2": time.Second / 2}, amounts{
			"train 1 shared": 292_500, "serve 2 shared": 97_500, "serve 2 allocated": 10_000, "idle": 20_000,
		}},
		{"both idle", 70_000, map[string]time.Duration{}, amounts{
			"train 1 allocated": 30_000, "serve 2 allocated": 20_000, "idle": 20_000,
		}},
		{"not known", 420_000, nil, amounts{
			"train 1 allocated": 180_000, "serve 2 allocated": 120_000, "idle": 120_000,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, counter, second := newLedger(), gpu.Millijoules(0), 0.0
			tell := func(energy gpu.Millijoules, busy map[string]time.Duration) *gpu.Book {
				counter += energy
				o := look(second, processes, holdsInstance(train, "1"), holdsInstance(serve, "2"))
				o.Partitions, o.Places = layout, map[gpu.ProcessID]string{processes[0].ID: "1", processes[1].ID: "2"}
				o.Energy, o.ActivityKnown, o.Utilization = new(counter), false, nil
				o.Instances, o.InstancesKnown = busy, busy != nil
				second++
				return ask(t, l, o)
			}
			var b *gpu.Book
			for range 10 {
				b = tell(70_000, map[string]time.Duration{})
			}
			if b.IdlePower != 70 {
				t.Fatalf("idle power %v W, want 70", b.IdlePower)
			}
			got, before := amounts{}, amountsOf(b)
			for what, amount := range amountsOf(tell(tt.energy, tt.busy)) {
				if more := amount - before[what]; more != 0 && what != "energy" {
					got[what] = more
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("amounts (-want +got):\n%s", diff)
			}
		})
	}
}
