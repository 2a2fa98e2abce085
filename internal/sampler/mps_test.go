package sampler_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Any process may have the name of an MPS server. If the pod of the process has a GPU, only clients in this pod must
// pay for its work. Otherwise, all clients must pay.
func TestMPSServerByName(t *testing.T) {
	const server = 9
	daemon := gpu.Owner{Kind: gpu.OwnerPod, Scope: "kube-system", Name: "mps-daemon", UID: "uid-mps", Part: "daemon"}
	sidecar := train
	sidecar.Part = "sidecar"
	tests := []struct {
		name   string
		holds  []gpu.Owner          // the first owner holds three replicas; each other owner holds one
		server gpu.Owner            // owner of the process with the name of an MPS server
		mps    map[uint32]gpu.Owner // MPS clients without samples, by PID
		plain  map[uint32]gpu.Owner // other processes, by PID
		busy   map[uint32]float64   // utilisation by PID
		want   map[gpu.Owner]gpu.ByMethod
	}{
		{
			"a tenant's worker with its own idle client",
			[]gpu.Owner{train, serve},
			train,
			map[uint32]gpu.Owner{42: train},
			map[uint32]gpu.Owner{43: serve},
			map[uint32]float64{server: 0.75, 43: 0.25},
			map[gpu.Owner]gpu.ByMethod{train: {gpu.Shared: 225_000}, serve: {gpu.Shared: 75_000}},
		},
		{
			"a tenant's worker beside another tenant's client",
			[]gpu.Owner{train, serve},
			train,
			map[uint32]gpu.Owner{43: serve},
			nil,
			map[uint32]float64{server: 0.75, 43: 0.25},
			map[gpu.Owner]gpu.ByMethod{train: {gpu.Shared: 225_000}, serve: {gpu.Shared: 75_000}},
		},
		{
			"a server in a sidecar",
			[]gpu.Owner{train, serve},
			sidecar,
			map[uint32]gpu.Owner{42: train},
			map[uint32]gpu.Owner{43: serve},
			map[uint32]float64{server: 0.75, 43: 0.25},
			map[gpu.Owner]gpu.ByMethod{train: {gpu.Shared: 225_000}, serve: {gpu.Shared: 75_000}},
		},
		{
			"a pod without a GPU, with a client of its tenant",
			[]gpu.Owner{train, serve},
			daemon,
			map[uint32]gpu.Owner{42: train},
			map[uint32]gpu.Owner{43: serve},
			map[uint32]float64{server: 0.75, 43: 0.25},
			map[gpu.Owner]gpu.ByMethod{train: {gpu.Shared: 225_000}, serve: {gpu.Shared: 75_000}},
		},
		{
			"the control daemon, with clients that hold 3 and 1 replicas",
			[]gpu.Owner{train, serve},
			daemon,
			map[uint32]gpu.Owner{42: train, 43: serve},
			nil,
			map[uint32]float64{server: 0.5},
			map[gpu.Owner]gpu.ByMethod{train: {gpu.Allocated: 225_000}, serve: {gpu.Allocated: 75_000}},
		},
		{
			"the control daemon, and a client with its own idle server",
			[]gpu.Owner{train, serve},
			daemon,
			map[uint32]gpu.Owner{42: train, 43: serve},
			map[uint32]gpu.Owner{44: train},
			map[uint32]float64{server: 0.5},
			map[gpu.Owner]gpu.ByMethod{train: {gpu.Allocated: 225_000}, serve: {gpu.Allocated: 75_000}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			for _, c := range tt.holds {
				w.gives(first, c)
				w.allocations.List[len(w.allocations.List)-1].Sharing = gpu.SharingTimeSlicing
			}
			w.allocations.List[0].Replicas = 3
			w.mps = make(map[uint32]bool)
			for pid, c := range tt.mps {
				w.runs(first, pid, c)
				w.mps[pid] = true
			}
			for pid, c := range tt.plain {
				w.runs(first, pid, c)
			}
			w.runs(first, server, tt.server)
			for _, pid := range []uint32{server, 44} { // in one test, the process 44 is a second server
				if p, ok := w.processes[pid]; ok {
					p.Name = "nvidia-cuda-mps"
					w.processes[pid] = p
				}
			}
			for pid, busy := range tt.busy {
				w.samples[first] = append(w.samples[first], gpu.Sample{PID: pid, SM: busy})
			}
			got := make(map[gpu.Owner]gpu.ByMethod)
			for _, a := range w.ticks(w.sampler(), 4).GPUs[0].Book.Accounts {
				if a.Energy.Sum() > 0 {
					got[a.Owner] = a.Energy
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("charged energy (-want +got):\n%s", diff)
			}
		})
	}
}

// Without a client on the GPU, an MPS server must count as any other process.
func TestMPSServerOutlivesItsClients(t *testing.T) {
	w := newWorld(t)
	w.gives(first, train)
	w.runs(first, 9, serve)
	p := w.processes[9]
	p.Name = "nvidia-cuda-mps"
	w.processes[9] = p
	w.samples[first] = []gpu.Sample{{PID: 9, SM: 1}}
	for _, a := range w.ticks(w.sampler(), 3).GPUs[0].Book.Accounts {
		if want := map[gpu.Owner]gpu.Millijoules{serve: 200_000}[a.Owner]; a.Energy.Sum() != want {
			t.Errorf("%s was charged %d mJ, want %d", a.Name, a.Energy.Sum(), want)
		}
	}
}

// If only the pod of a process is known, its use of the GPU must be attributed to the pod's container that holds the
// GPU.
func TestOnlyPodKnown(t *testing.T) {
	pod := train
	pod.Part = ""
	w := newWorld(t)
	w.gives(first, train)
	w.runs(first, 42, pod)
	g := w.ticks(w.sampler(), 3).GPUs[0]
	if len(g.Holders) != 1 || g.Holders[0].Owner != train || *g.Strays != 0 || *g.Unused != 0 {
		t.Errorf("%d strays, %d unused, holders %+v; want 0, 0 and the allocated container", *g.Strays, *g.Unused, g.Holders)
	}
	if a := g.Book.Accounts; len(a) != 1 || a[0].Owner != train || a[0].Energy[gpu.Exclusive] != 200_000 {
		t.Errorf("accounts: %+v, want one, for the allocated container, with 200000 mJ", a)
	}
}
