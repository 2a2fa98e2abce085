package sampler_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// If the driver has no new samples, the utilisation of a process must be unknown and not zero.
func TestNothingNew(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	s := w.sampler()
	w.ticks(s, 2)
	w.still = true
	if p := w.ticks(s, 1).GPUs[0].Processes[0]; p.SM != nil || p.Memory != nil {
		t.Errorf("process: %+v, want unknown utilisation", p)
	}
}

func TestOwnShare(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	w.runs(first, 43, serve)
	w.runs(first, 44, serve)
	w.samples[first] = []gpu.Sample{{PID: 42, SM: 0.5, Memory: 0.25}, {PID: 43, SM: 0.125, Memory: 0.0625}}
	want := map[uint32][2]float64{42: {0.5, 0.25}, 43: {0.125, 0.0625}, 44: {}}
	got := make(map[uint32][2]float64)
	for _, p := range w.ticks(w.sampler(), 1).GPUs[0].Processes {
		got[p.ID.PID] = [2]float64{*p.SM, *p.Memory}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("utilisation (-want +got):\n%s", diff)
	}
}

// A process with a sample of 0 % must not count as active.
func TestIdleSample(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	w.samples[first], w.utilization = []gpu.Sample{{PID: 42}}, 0
	if a := w.ticks(w.sampler(), 3).GPUs[0].Book.Accounts[0]; a.Active != 0 || a.Idle != 200_000 {
		t.Errorf("active for %v, idle energy %d mJ; want 0, 200000", a.Active, a.Idle)
	}
}

func TestLateOwner(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	p := w.processes[42]
	p.Owner = gpu.Owner{}
	w.processes[42] = p
	if got := w.ticks(w.sampler(), 1).GPUs[0].Processes[0].Owner; got != w.owners[p.ID] {
		t.Errorf("owner %+v, want %+v", got, w.owners[p.ID])
	}
}

// Earlier snapshots must not change when an owner is identified later.
func TestShownOwner(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	p := w.processes[42]
	owner := p.Owner
	p.Owner = gpu.Owner{}
	w.processes[42], w.owners[p.ID] = p, p.Owner
	s := w.sampler()
	before := w.ticks(s, 2)
	w.owners[p.ID] = owner
	after := w.ticks(s, 1)
	if got := before.GPUs[0].Processes[0].Owner; got != p.Owner {
		t.Errorf("owner in the earlier snapshot %+v, want none", got)
	}
	if got := after.GPUs[0].Processes[0].Owner; got != owner {
		t.Errorf("owner %+v, want %+v", got, owner)
	}
	if got := after.GPUs[0].Book.Accounts[0].Energy[gpu.Exclusive]; got != 200_000 {
		t.Errorf("container of the process was charged %d mJ, want 200000", got)
	}
}

// The samples of an ended process must be charged to its last known owner. The samples of a process that was never seen
// must be unmapped.
func TestVanished(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	s := w.sampler()
	w.ticks(s, 2)
	ended := w.processes[42]
	w.contexts[first], w.processes = nil, map[uint32]gpu.Process{}
	w.samples[first] = []gpu.Sample{{PID: 42, SM: 1}}
	w.samples[second] = []gpu.Sample{{PID: 43, SM: 1}}
	snap := w.ticks(s, 1)
	if got := snap.GPUs[0].Book.Accounts[0].Energy[gpu.Exclusive]; got != 200_000 {
		t.Errorf("ended process %+v was charged %d mJ, want 200000", ended, got)
	}
	if got := snap.GPUs[1].Book.Unattributed[gpu.Unmapped]; got != 100_000 {
		t.Errorf("unknown process was charged %d mJ, want 100000", got)
	}
}

// The sampler remembers an ended process for half a minute. The driver does not list an ended process for this long.
func TestMemory(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	s := w.sampler()
	w.ticks(s, 1)
	w.contexts[first], w.processes = nil, map[uint32]gpu.Process{}
	w.ticks(s, 29)
	w.samples[first] = []gpu.Sample{{PID: 42, SM: 1}}
	book := w.ticks(s, 2).GPUs[0].Book
	if got := book.Accounts[0].Energy[gpu.Exclusive]; got != 300_000 || book.Unattributed[gpu.Unmapped] != 0 {
		t.Errorf("container of the process was charged %d mJ, want 300000: %+v", got, book)
	}
	if got := w.ticks(s, 1).GPUs[0].Book.Unattributed[gpu.Unmapped]; got != 100_000 {
		t.Errorf("unmapped energy after half a minute: %d mJ, want 100000", got)
	}
}

// Two processes have one PID. Until the driver lists the later process, samples with this PID must count for the
// earlier process, because only the earlier process was on the GPU.
func TestReusedPID(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	s := w.sampler()
	w.ticks(s, 1)
	other := gpu.Process{ID: gpu.ProcessID{PID: 42, Start: 8}, Owner: gpu.Owner{Kind: gpu.OwnerHost}}
	w.contexts[first], w.processes[42], w.owners[other.ID] = nil, other, other.Owner
	w.ticks(s, 1)
	w.samples[first] = []gpu.Sample{{PID: 42, SM: 1}}
	book := w.ticks(s, 1).GPUs[0].Book
	if got := book.Accounts[0].Energy[gpu.Exclusive]; got != 200_000 {
		t.Errorf("earlier process was charged %d mJ, want 200000: %+v", got, book)
	}
	w.contexts[first] = []uint32{42}
	if got := w.ticks(s, 1).GPUs[0].Book.Unattributed[gpu.Host]; got != 100_000 {
		t.Errorf("later process was charged %d mJ, want 100000", got)
	}
}

// Two processes have one PID. If the earlier process left the GPU long before a sample, the sample must count for the
// later process.
func TestReusedPIDLater(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	s := w.sampler()
	w.ticks(s, 2)
	other := gpu.Process{ID: gpu.ProcessID{PID: 42, Start: 8}, Owner: gpu.Owner{Kind: gpu.OwnerHost}}
	w.contexts[first], w.processes[42], w.owners[other.ID] = nil, other, other.Owner
	w.ticks(s, 20)
	w.samples[first] = []gpu.Sample{{PID: 42, SM: 1}}
	if book := w.ticks(s, 1).GPUs[0].Book; book.Unattributed[gpu.Host] != 100_000 {
		t.Errorf("later process was charged %d mJ, want 100000: %+v", book.Unattributed[gpu.Host], book)
	}
}

// While a client is on the GPU, an MPS server must not be an owner. Its samples must not count as activity of any
// owner.
func TestMPS(t *testing.T) {
	w := newWorld(t)
	w.gives(first, train)
	w.gives(first, serve)
	w.allocations.List[0].Replicas = 2
	w.runs(first, 42, train)
	w.runs(first, 43, serve)
	w.mps = map[uint32]bool{42: true, 43: true}
	server := gpu.Process{ID: gpu.ProcessID{PID: 9, Start: 7}, Name: "nvidia-cuda-mps", Owner: gpu.Owner{Kind: gpu.OwnerHost}}
	w.processes[9], w.owners[server.ID] = server, server.Owner
	w.contexts[first] = append(w.contexts[first], 9)
	w.samples[first] = []gpu.Sample{{PID: 9, SM: 1}}
	s := w.sampler()
	b := w.ticks(s, 4).GPUs[0].Book
	if b.Accounts[0].Energy != (gpu.ByMethod{gpu.Allocated: 200_001}) || b.Accounts[1].Energy != (gpu.ByMethod{gpu.Allocated: 99_999}) {
		t.Errorf("accounts of the clients: %+v, want 200001 and 99999 mJ for holding", b.Accounts)
	}
	w.contexts[first], w.mps = []uint32{9}, nil
	w.ticks(s, 1)
	if b := w.ticks(s, 2).GPUs[0].Book; b.Unattributed[gpu.Host] != 300_000 {
		t.Errorf("book with the server alone: %+v, want 300000 mJ for the host", b)
	}
}

// The snapshot must omit an MPS server while one of its clients is on the GPU. It must contain all other processes.
func TestMPSServer(t *testing.T) {
	tests := []struct {
		name  string
		runs  map[uint32]gpu.Owner // processes other than the server, by PID
		shown []uint32
		want  gpu.ByMethod // energy of the pod train
	}{
		{"one client", map[uint32]gpu.Owner{42: train}, []uint32{42}, gpu.ByMethod{gpu.Exclusive: 200_000}},
		{"a client and another process", map[uint32]gpu.Owner{42: train, 43: serve}, []uint32{42, 43}, gpu.ByMethod{gpu.Allocated: 100_000}},
		{"no client", map[uint32]gpu.Owner{43: serve}, []uint32{43, 9}, gpu.ByMethod{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			for _, pid := range slices.Sorted(maps.Keys(tt.runs)) {
				w.runs(first, pid, tt.runs[pid])
			}
			w.mps = map[uint32]bool{42: true}
			server := gpu.Process{ID: gpu.ProcessID{PID: 9, Start: 7}, Name: "nvidia-cuda-mps", Owner: gpu.Owner{Kind: gpu.OwnerHost}}
			w.processes[9], w.owners[server.ID] = server, server.Owner
			w.contexts[first] = append(w.contexts[first], 9)
			g := w.ticks(w.sampler(), 3).GPUs[0]
			var shown []uint32
			for _, p := range g.Processes {
				shown = append(shown, p.ID.PID)
			}
			if len(g.Holders) != len(tt.runs) || *g.Strays != len(tt.runs) {
				t.Errorf("%d strays, holders %+v; want one holder and one stray per container", *g.Strays, g.Holders)
			}
			if diff := cmp.Diff(tt.shown, shown); diff != "" {
				t.Errorf("processes (-want +got):\n%s", diff)
			}
			var got gpu.ByMethod
			for _, a := range g.Book.Accounts {
				if a.Owner == train {
					got = a.Energy
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("charged energy (-want +got):\n%s", diff)
			}
		})
	}
}
