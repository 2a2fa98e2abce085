package sampler_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// TestUse checks the number of processes without an allocation (strays) and of allocations without a process (unused).
func TestUse(t *testing.T) {
	initContainer := train
	initContainer.Part = "warm-up"
	tests := []struct {
		name           string
		given, used    []gpu.Owner // owners of allocations and of processes on the first GPU
		strays, unused int
		sharing        []gpu.Sharing
	}{
		{"nothing", nil, nil, 0, 0, nil},
		{"used as allocated", []gpu.Owner{train}, []gpu.Owner{train}, 0, 0, []gpu.Sharing{gpu.SharingExclusive}},
		{"allocated, not used", []gpu.Owner{train}, nil, 0, 1, []gpu.Sharing{gpu.SharingExclusive}},
		{"used, not allocated", nil, []gpu.Owner{train}, 1, 0, []gpu.Sharing{gpu.SharingNone}},
		{"used by another container in the pod", []gpu.Owner{train}, []gpu.Owner{initContainer}, 0, 0, []gpu.Sharing{gpu.SharingExclusive, gpu.SharingExclusive}},
		{"a hog beside an idle holder", []gpu.Owner{train}, []gpu.Owner{serve}, 1, 1, []gpu.Sharing{gpu.SharingExclusive, gpu.SharingNone}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			for _, c := range tt.given {
				w.gives(first, c)
				w.allocations.List[0].Claim = "claim"
			}
			for i, c := range tt.used {
				w.runs(first, uint32(42+i), c)
			}
			g := w.ticks(w.sampler(), 2).GPUs[0]
			if *g.Strays != tt.strays || *g.Unused != tt.unused {
				t.Errorf("%d strays, %d unused; want %d, %d", *g.Strays, *g.Unused, tt.strays, tt.unused)
			}
			var got []gpu.Sharing
			for _, h := range g.Holders {
				got = append(got, h.Sharing)
				if allocated := h.Sharing != gpu.SharingNone; allocated != (h.Claim == "claim") || allocated != (h.Resource == "nvidia.com/gpu") {
					t.Errorf("holder %+v, want resource and claim of its allocation", h)
				}
			}
			if diff := cmp.Diff(tt.sharing, got); diff != "" {
				t.Errorf("sharing (-want +got):\n%s", diff)
			}
		})
	}
}

// A pod with one MIG instance may use only this instance. A pod with the whole GPU may use any instance.
func TestUseOfInstances(t *testing.T) {
	tests := []struct {
		name           string
		given          string // device that is allocated to the pod train
		user           gpu.Owner
		on             string
		strays, unused int
		holders        map[string]gpu.Sharing // sharing of the holder, by instance
	}{
		{"its own", "MIG-1", train, "1", 0, 0, map[string]gpu.Sharing{"1": gpu.SharingMIG}},
		{"another one", "MIG-1", train, "2", 1, 1, map[string]gpu.Sharing{"1": gpu.SharingMIG, "2": gpu.SharingNone}},
		{"another pod's", "MIG-2", serve, "2", 1, 1, map[string]gpu.Sharing{"2": gpu.SharingNone}},
		{"an instance of a whole GPU", first, train, "2", 0, 0, map[string]gpu.Sharing{"": gpu.SharingMIG, "2": gpu.SharingMIG}},
		{"an instance of another pod's whole GPU", first, serve, "2", 1, 1, map[string]gpu.Sharing{"": gpu.SharingMIG, "2": gpu.SharingNone}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.devices[0].Partitions = halves()
			w.gives(tt.given, train)
			w.allocations.List[0].Sharing = gpu.SharingMIG
			w.runs(first, 42, tt.user)
			w.places = map[uint32]string{42: tt.on}
			g := w.ticks(w.sampler(), 1).GPUs[0]
			if *g.Strays != tt.strays || *g.Unused != tt.unused {
				t.Errorf("%d strays, %d unused; want %d, %d", *g.Strays, *g.Unused, tt.strays, tt.unused)
			}
			got := make(map[string]gpu.Sharing)
			for _, h := range g.Holders {
				got[h.GPUInstance] = h.Sharing
			}
			if diff := cmp.Diff(tt.holders, got); diff != "" {
				t.Errorf("sharing (-want +got):\n%s", diff)
			}
		})
	}
}

// A container with two allocations of one GPU must count as one holder, with the larger number of replicas.
func TestTwoClaims(t *testing.T) {
	w := newWorld(t)
	w.gives(first, train)
	w.gives(first, train)
	w.allocations.List[1].Replicas = 2
	w.gives(first, serve)
	w.allocations.List[2].Replicas = 2
	g := w.ticks(w.sampler(), 3).GPUs[0]
	if *g.Unused != 2 || g.Book.Accounts[0].Energy != g.Book.Accounts[1].Energy {
		t.Errorf("%d unused, want 2; accounts %+v, want equal energy", *g.Unused, g.Book.Accounts)
	}
	if len(g.Holders) != 2 || g.Holders[0].Replicas != 2 {
		t.Errorf("holders: %+v, want two, the first with 2 replicas", g.Holders)
	}
}

// Until the next pod-resources list, use of the GPU by a new container must not be reported as unallocated. If its
// process ends and the container starts another process within minutes, the container must not count as new.
func TestNewcomer(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	look := func(when string, strays int, sharing gpu.Sharing) {
		t.Helper()
		if g := w.ticks(s, 1).GPUs[0]; *g.Strays != strays || len(g.Holders) != 1 || g.Holders[0].Sharing != sharing {
			t.Errorf("%s: %d strays, holders %+v", when, *g.Strays, g.Holders)
		}
	}
	w.allocations.Requested = w.now
	w.ticks(s, 2)
	w.runs(first, 42, train)
	look("it came", 0, gpu.SharingUnknown)
	look("the kubelet was not queried", 0, gpu.SharingUnknown)
	w.allocations.Requested = w.now
	look("the kubelet did not list the process's allocation", 1, gpu.SharingNone)

	w.contexts[first] = nil
	w.ticks(s, 300)
	w.runs(first, 43, train)
	look("the process started again", 1, gpu.SharingNone)
	w.contexts[first] = nil
	w.ticks(s, 700)
	w.runs(first, 44, train)
	look("the process started again after a long time", 0, gpu.SharingUnknown)
	w.gives(first, train)
	w.allocations.Requested = w.now
	look("the kubelet listed the allocation", 0, gpu.SharingExclusive)
}

// Strays and unused allocations must be unknown if the kubelet reports no allocations or the driver returns no reading.
func TestUseUnknown(t *testing.T) {
	w := newWorld(t)
	w.allocations.Known = false
	s := w.sampler()
	if g := w.ticks(s, 2).GPUs[0]; g.Strays != nil || g.Unused != nil {
		t.Errorf("without the kubelet: %d strays, %d unused, want nil", *g.Strays, *g.Unused)
	}
	w.allocations.Known = true
	w.hung[first] = true
	if g := w.ticks(s, 2).GPUs[0]; g.Strays != nil || g.Unused != nil {
		t.Errorf("without the driver: %d strays, %d unused, want nil", *g.Strays, *g.Unused)
	}
}

// On a machine without a device allocator, use of a GPU must never be reported as unallocated. The energy of an unused
// GPU must have the reason idle.
func TestNoKubelet(t *testing.T) {
	w := newWorld(t)
	w.allocations.Optional = true
	w.runs(first, 42, train)
	snap := w.ticks(w.sampler(), 3)
	g := snap.GPUs[0]
	if g.Strays != nil || g.Unused != nil || len(g.Holders) != 1 || g.Holders[0].Sharing != gpu.SharingUnknown || !g.HoldersKnown {
		t.Errorf("used GPU: %v strays, %v unused, holders %+v", g.Strays, g.Unused, g.Holders)
	}
	if g := snap.GPUs[1]; len(g.Holders) != 0 || !g.HoldersKnown || g.Book.Unattributed[gpu.Idle] != 200_000 {
		t.Errorf("unused GPU: holders %+v, book %+v", g.Holders, g.Book)
	}
}

// On a GPU that is reserved for unknown pods, processes must not count as strays, no pod must hold the GPU, and no
// owner must pay for idle energy.
func TestReservation(t *testing.T) {
	w := newWorld(t)
	w.gives(first, serve)
	w.gives(second, serve)
	for i := range w.allocations.List {
		w.allocations.List[i].Reserved = true
	}
	w.runs(first, 42, train)
	snap := w.ticks(w.sampler(), 3)
	if g := snap.GPUs[0]; *g.Strays != 0 || *g.Unused != 0 || len(g.Holders) != 1 || g.Holders[0].Owner != train {
		t.Errorf("used GPU: %d strays, %d unused, holders %+v", *g.Strays, *g.Unused, g.Holders)
	}
	if g := snap.GPUs[1]; *g.Unused != 0 || len(g.Holders) != 0 || g.Book.Unattributed[gpu.Idle] != 200_000 {
		t.Errorf("unused GPU: %d unused, holders %+v, book %+v", *g.Unused, g.Holders, g.Book)
	}
}

// A unit that holds a GPU without a process must pay for the GPU's idle energy, even if allocations are optional.
func TestUnitHolds(t *testing.T) {
	w := newWorld(t)
	job := gpu.Unit{Manager: "slurm", Name: "4711"}.Owner()
	w.gives(first, job)
	w.allocations.Optional = true
	g := w.ticks(w.sampler(), 3).GPUs[0]
	if len(g.Holders) != 1 || g.Holders[0].Owner != job || g.Holders[0].Sharing != gpu.SharingExclusive || g.Strays != nil {
		t.Errorf("holders %+v, %v strays", g.Holders, g.Strays)
	}
	if len(g.Book.Accounts) != 1 || g.Book.Accounts[0].Energy.Sum() != 200_000 || g.Book.Accounts[0].Allocated == 0 {
		t.Errorf("accounts %+v, want the energy of 2 s", g.Book.Accounts)
	}
}

// While the kubelet returns no allocations, a snapshot must contain the last known holders and no unallocated use. The
// ledger must get no allocations.
func TestSilentKubelet(t *testing.T) {
	w := newWorld(t)
	helper := train
	helper.Part = "helper"
	w.gives(first, train)
	w.gives(second, serve)
	w.runs(first, 42, train)
	w.runs(first, 43, helper)
	s := w.sampler()
	before := w.ticks(s, 2).GPUs[0].Holders

	w.allocations = gpu.Allocations{}
	w.runs(first, 44, serve) // not the allocated GPU of this pod
	w.ticks(s, 20)
	snap := w.ticks(s, 1)
	want := append(before, gpu.Holder{AccountKey: gpu.AccountKey{Owner: serve}, Sharing: gpu.SharingUnknown})
	if diff := cmp.Diff(want, snap.GPUs[0].Holders); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
	if g := snap.GPUs[1]; len(g.Holders) != 0 || g.HoldersKnown || g.Book.Unattributed[gpu.Unknown] == 0 {
		t.Errorf("GPU without a process: holders %+v, book %+v; want no holders and unknown energy", g.Holders, g.Book)
	}

	w.processes, w.contexts[first] = map[uint32]gpu.Process{}, nil
	if g := w.ticks(s, 1).GPUs[0]; len(g.Holders) != 0 {
		t.Errorf("holders after their processes ended: %+v, want none", g.Holders)
	}
	s = w.restarted(s)
	w.runs(first, 45, train)
	if g := w.ticks(s, 1).GPUs[0]; len(g.Holders) != 1 || g.Holders[0].Sharing != gpu.SharingUnknown {
		t.Errorf("holders of a new exporter without allocations: %+v, want one with unknown sharing", g.Holders)
	}
}

// If the allocated device of a pod is unknown, the pod may hold any GPU. Its use of a GPU must not be reported as
// unallocated, but it must not pay for holding a GPU. Use by other pods must be reported as unallocated.
func TestUnplaced(t *testing.T) {
	for name, device := range map[string]gpu.DeviceName{"not listed": {Index: new(9)}, "not understood": {}} {
		t.Run(name, func(t *testing.T) { testUnplaced(t, device) })
	}
}

func testUnplaced(t *testing.T, device gpu.DeviceName) {
	w := newWorld(t)
	w.allocations.List = []gpu.Allocation{{Device: device, Owner: train, Sharing: gpu.SharingExclusive, Replicas: 1, Live: true}}
	w.runs(first, 42, train)
	w.runs(second, 43, serve)
	snap := w.ticks(w.sampler(), 3)
	if g := snap.GPUs[0]; *g.Strays != 0 || *g.Unused != 0 || len(g.Holders) != 1 || g.Holders[0].Sharing != gpu.SharingUnknown {
		t.Errorf("pod with an unknown device: %d strays, %d unused, holders %+v", *g.Strays, *g.Unused, g.Holders)
	}
	if g := snap.GPUs[1]; *g.Strays != 1 || len(g.Holders) != 1 || g.Holders[0].Sharing != gpu.SharingNone {
		t.Errorf("pod without a device: %d strays, holders %+v", *g.Strays, g.Holders)
	}
}

// The sampler must ignore the driver's process lists if the exporter has its own PID namespace. Holders must be charged
// for their allocations. No owner must be charged for use.
func TestPrivatePIDs(t *testing.T) {
	w := newWorld(t)
	w.private = true
	w.gives(first, train)
	w.runs(first, 42, serve)
	w.runs(second, 43, serve)
	w.samples[first] = []gpu.Sample{{PID: 42, SM: 1}}
	snap := w.ticks(w.sampler(), 4)
	held, free := snap.GPUs[0].Book, snap.GPUs[1].Book
	if len(held.Accounts) != 1 || held.Accounts[0].Energy != (gpu.ByMethod{gpu.Allocated: 300_000}) {
		t.Errorf("book of the allocated GPU: %+v, want 300000 mJ for holding", held)
	}
	if len(free.Accounts) != 0 || free.Unattributed[gpu.Unknown] != 300_000 {
		t.Errorf("book of the GPU without a holder: %+v, want 300000 mJ unknown", free)
	}
	if len(snap.GPUs[0].Processes) != 0 || snap.GPUs[0].Strays != nil || snap.GPUs[0].HoldersKnown {
		t.Errorf("GPU %+v, want no processes and no strays", snap.GPUs[0])
	}
}

// The sampler must ignore an allocation if its pod is unknown or may have ended. If a process of this pod still uses
// the GPU, its use must count as unallocated.
func TestDeadHolder(t *testing.T) {
	w := newWorld(t)
	unknown := train
	unknown.UID = ""
	w.allocations.List = []gpu.Allocation{
		{Device: gpu.DeviceName{UUID: first}, Owner: train, Sharing: gpu.SharingExclusive, Replicas: 1},
		{Device: gpu.DeviceName{UUID: first}, Owner: unknown, Sharing: gpu.SharingExclusive, Replicas: 1, Live: true},
	}
	s := w.sampler()
	if got := w.ticks(s, 1).GPUs[0].Holders; len(got) != 0 {
		t.Errorf("holders: %+v, want none", got)
	}
	w.runs(first, 42, train)
	if g := w.ticks(s, 1).GPUs[0]; *g.Strays != 1 || len(g.Holders) != 1 || g.Holders[0].Sharing != gpu.SharingNone {
		t.Errorf("with a process: %d strays, holders %+v; want one", *g.Strays, g.Holders)
	}
}

// A pod appears on a GPU between two requests to the kubelet. If the next list contains its allocation, the pod must
// have held the GPU since its first second on the GPU. Its active time must never exceed its held time.
func TestNewPod(t *testing.T) {
	w := newWorld(t)
	w.gives(first, serve)
	w.allocations.Requested = w.now
	s := w.sampler()
	w.ticks(s, 3)
	w.runs(first, 42, train) // the first list does not contain the pod
	w.samples[first] = []gpu.Sample{{PID: 42, SM: 0.9}}
	w.ticks(s, 6)
	w.gives(first, train)
	w.allocations.List[0].Sharing, w.allocations.List[1].Sharing = gpu.SharingTimeSlicing, gpu.SharingTimeSlicing
	w.allocations.Requested = w.now
	for _, a := range w.ticks(s, 6).GPUs[0].Book.Accounts {
		want := 14 * time.Second
		if a.Owner == train {
			want = 11 * time.Second // includes the second before the pod was seen
		}
		if off := a.Allocated - want; off.Abs() > time.Second || a.Active > a.Allocated {
			t.Errorf("%s held the GPU for %v, active for %v; want %v", a.Name, a.Allocated, a.Active, want)
		}
	}
}

// A pod ends after its GPU was read, while another GPU delays the tick. The pod must hold its GPU until the first
// reading without a process of the pod.
func TestEndAfterReading(t *testing.T) {
	w := newWorld(t)
	w.gives(first, train)
	w.runs(first, 42, train)
	s := w.sampler()
	w.ticks(s, 5)
	w.allocations.List[0].Live = false
	w.ticks(s, 3) // the driver still lists the pod's process
	w.contexts[first] = nil
	snap := w.ticks(s, 5)
	if held, _ := heldBy(snap.GPUs[0], train); held != 8*time.Second {
		t.Errorf("the pod held the GPU for %v, want 8s", held)
	}
}
