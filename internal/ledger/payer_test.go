package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// The keys are names such as "main exclusive", or reasons for unattributed energy.
func sharesOf(b *gpu.Book) map[string]gpu.Millijoules {
	got := make(map[string]gpu.Millijoules)
	for _, a := range b.Accounts {
		for m, e := range a.Energy {
			if e > 0 {
				got[a.Part+" "+gpu.Method(m).String()] += e
			}
		}
	}
	for r, e := range b.Unattributed {
		if e > 0 {
			got[gpu.Reason(r).String()] = e
		}
	}
	return got
}

// payerTest describes an interval of 300 J by its last observation.
type payerTest struct {
	name string
	look ledger.Observation
	want map[string]gpu.Millijoules
}

func checkPayers(t *testing.T, tests []payerTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := tt.look
			before.At, before.Energy, before.Activity = at(0), new(gpu.Millijoules(1_000_000)), nil
			before.Sampled = gpu.Span{From: at(-1).Boot, To: at(0).Boot}
			l := newLedger()
			b := ask(t, l, before, tt.look)
			if b.Energy == 0 { // the ledger has not settled the interval yet
				b = ask(t, l, unread(look(12, nil, tt.look.Allocations...)))
			}
			if diff := cmp.Diff(tt.want, sharesOf(b)); diff != "" {
				t.Errorf("charged (-want +got):\n%s", diff)
			}
		})
	}
}

func active(o ledger.Observation, activity ...ledger.Activity) ledger.Observation {
	o.Activity = activity
	return o
}

// The holders must pay for a process that ended before its owner was read.
func TestVanishedProcess(t *testing.T) {
	vanished := &gpu.Process{ID: gpu.ProcessID{PID: 42}, Owner: gpu.Owner{Kind: gpu.OwnerUnmapped}}
	unnamed := process(43, gpu.Owner{Kind: gpu.OwnerUnmapped})
	main, host := process(21, in(train)), process(9, gpu.Owner{Kind: gpu.OwnerHost})
	passing, works := process(22, in(train)), worked(vanished, 500)
	dead, unknown, sidecar, replica := holds(serve, 1), holds(serve, 1), holds(train, 1), holds(train, 1)
	dead.Live, unknown.Live, unknown.Owner.UID = false, false, ""
	sidecar.Owner.Part = "sidecar"
	replica.Sharing = gpu.SharingTimeSlicing
	mute := look(1, []*gpu.Process{vanished}, holds(train, 1))
	mute.ActivityKnown = false
	asked := look(1, nil, holds(train, 1))
	asked.AllocationsKnown = false
	checkPayers(t, []payerTest{
		{"held exclusively", active(look(1, nil, holds(train, 1)), works), map[string]gpu.Millijoules{"main allocated": 300_000}},
		{"beside a process of the pod", active(look(1, []*gpu.Process{main}, holds(train, 1)), works, worked(main, 500)), map[string]gpu.Millijoules{"main shared": 150_000, "main allocated": 150_000}},
		{"beside the host", active(look(1, []*gpu.Process{host}, holds(train, 1)), works, worked(host, 250)), map[string]gpu.Millijoules{"main allocated": 200_000, "host": 100_000}},
		{"listed, no signal", mute, map[string]gpu.Millijoules{"main allocated": 300_000}},
		{"held by two containers of the pod", active(look(1, nil, holds(train, 1), sidecar), works), map[string]gpu.Millijoules{" allocated": 300_000}},
		{"beside a dead pod's allocation", active(look(1, nil, holds(train, 1), dead), works), map[string]gpu.Millijoules{"main allocated": 300_000}},

		{"beside an allocation of an unknown pod", active(look(1, nil, holds(train, 1), unknown), works), map[string]gpu.Millijoules{"main allocated": 150_000, "unmapped": 150_000}},
		{"held by two pods", active(look(1, nil, holds(train, 2), holds(serve, 1)), works), map[string]gpu.Millijoules{"main allocated": 200_000, "model allocated": 100_000}},
		{"one holder of a replica", active(look(1, nil, replica), works), map[string]gpu.Millijoules{"main allocated": 300_000}},
		{"beside a short-lived process", active(look(1, []*gpu.Process{main}, holds(train, 1), holds(serve, 3)), works, worked(passing, 100)), map[string]gpu.Millijoules{"main shared": 50_000, "main allocated": 250_000}},
		{"held by a dead pod", active(look(1, nil, dead), works), map[string]gpu.Millijoules{"unmapped": 300_000}},
		{"not held", active(look(1, nil), works), map[string]gpu.Millijoules{"unmapped": 300_000}},
		{"alive without a name", active(look(1, []*gpu.Process{unnamed}, holds(train, 1)), worked(unnamed, 500)), map[string]gpu.Millijoules{"unmapped": 300_000}},
		{"the kubelet responds later", active(asked, works), map[string]gpu.Millijoules{"main allocated": 300_000}},
	})
}

// If only the pod of a process is known, the container that holds the GPU must pay for the process.
func TestOnlyPodKnown(t *testing.T) {
	pod, beside := train, train
	pod.Part, beside.Part = "", "sidecar"
	p, other := process(21, in(pod)), process(31, in(serve))
	both := []*gpu.Process{p, other}
	checkPayers(t, []payerTest{
		{"one container holds the GPU", look(1, []*gpu.Process{p}, holds(train, 1)), map[string]gpu.Millijoules{"main exclusive": 300_000}},
		{"beside a process of the container", look(1, []*gpu.Process{p, process(22, in(train))}, holds(train, 1)), map[string]gpu.Millijoules{"main exclusive": 300_000}},
		{"two containers hold the GPU", look(1, []*gpu.Process{p}, holds(train, 1), holds(beside, 1)), map[string]gpu.Millijoules{" exclusive": 300_000}},
		{"another pod holds the GPU", look(1, []*gpu.Process{p}, holds(serve, 1)), map[string]gpu.Millijoules{"model allocated": 300_000}},
		{"idle beside another holder", look(1, both, holds(train, 2), holds(serve, 4)), map[string]gpu.Millijoules{"main allocated": 100_000, "model allocated": 200_000}},
		{"two containers hold the GPU, idle beside another holder", look(1, both, holds(train, 2), holds(beside, 2), holds(serve, 2)), map[string]gpu.Millijoules{" allocated": 200_000, "model allocated": 100_000}},
	})
}

// If one container of a pod holds the GPU and another container uses it, the pod must pay.
func TestSidecar(t *testing.T) {
	beside := train
	beside.Part = "sidecar"
	sidecar, main, other := process(21, in(beside)), process(22, in(train)), process(31, in(serve))
	checkPayers(t, []payerTest{
		{"instead of the holder", look(1, []*gpu.Process{sidecar, other}, holds(train, 2), holds(serve, 4)), map[string]gpu.Millijoules{"sidecar allocated": 100_000, "model allocated": 200_000}},
		{"beside the holder", look(1, []*gpu.Process{sidecar, main, other}, holds(train, 2), holds(serve, 4)), map[string]gpu.Millijoules{"main allocated": 100_000, "model allocated": 200_000}},
	})
}

// The work of an MPS server is divided among its clients by their replicas. It must not count as active time of a
// client.
func TestServed(t *testing.T) {
	idle := gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml", Name: "idle-0", UID: "uid-idle", Part: "idle"}
	first, second, third := process(21, in(train)), process(31, in(serve)), process(41, in(idle))
	all := []*gpu.Process{first, second, third}
	served := func(p *gpu.Process, ms time.Duration) ledger.Activity {
		a := worked(p, ms)
		a.Served = true
		return a
	}
	clients := []ledger.Activity{served(first, 200), served(second, 200)}
	held := []gpu.Allocation{holds(train, 2), holds(serve, 4), holds(idle, 6)}
	tests := []payerTest{
		{"clients only", active(look(1, all, held...), clients...), map[string]gpu.Millijoules{"main allocated": 100_000, "model allocated": 200_000}},
		{"beside a process that is not a client", active(look(1, all, held...), append(clients, worked(third, 200))...), map[string]gpu.Millijoules{"main allocated": 66_667, "model allocated": 133_333, "idle shared": 100_000}},
		{"no holder", active(look(1, all), clients...), map[string]gpu.Millijoules{"main allocated": 150_000, "model allocated": 150_000}},
	}
	checkPayers(t, tests)
	for _, a := range ask(t, newLedger(), look(0, all, held...), tests[0].look).Accounts {
		if a.Active != 0 {
			t.Errorf("active time of %s: %v, want 0", a.Name, a.Active)
		}
	}
}
