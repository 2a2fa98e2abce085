package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// GPU time is the elapsed time multiplied by the pod's share of the GPU. The test compares the GPU time after three
// seconds.
func TestGPUTime(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	sidecar := train
	sidecar.Part = "sidecar"
	shared := func(c gpu.Owner, replicas int) gpu.Allocation {
		h := holds(c, replicas)
		h.Sharing = gpu.SharingTimeSlicing
		return h
	}
	stale := holds(serve, 1)
	stale.Live = false
	type times map[string]time.Duration
	tests := []struct {
		name        string
		processes   []*gpu.Process
		allocations []gpu.Allocation
		mig         bool
		want        times
	}{
		{"no allocation", []*gpu.Process{p}, nil, false, times{"train-0": 0}},
		{"one holder", nil, []gpu.Allocation{holds(train, 1)}, false, times{"train-0": 3 * time.Second}},
		{"one holder of one replica", nil, []gpu.Allocation{shared(train, 1)}, false, times{"train-0": 3 * time.Second}},
		{
			"two holders by replicas, regardless of activity",
			[]*gpu.Process{q},
			[]gpu.Allocation{shared(train, 2), shared(serve, 1)},
			false,
			times{"train-0": 2 * time.Second, "serve-0": time.Second},
		},
		{
			"a process without an allocation gets no time",
			[]*gpu.Process{p, q},
			[]gpu.Allocation{holds(train, 1)},
			false,
			times{"train-0": 3 * time.Second, "serve-0": 0},
		},
		{
			"two containers of one pod",
			nil,
			[]gpu.Allocation{shared(train, 1), shared(sidecar, 1)},
			false,
			times{"train-0": 3 * time.Second},
		},
		{"a stale allocation", nil, []gpu.Allocation{holds(train, 1), stale}, false, times{"train-0": 3 * time.Second}},
		{
			"MIG instances of three and one of seven slices",
			nil,
			[]gpu.Allocation{holdsInstance(train, "1"), holdsInstance(serve, "2")},
			true,
			times{"train-0": 9 * time.Second / 7, "serve-0": 3 * time.Second / 7},
		},
		{"a whole GPU in MIG mode", nil, []gpu.Allocation{holds(train, 1)}, true, times{"train-0": 3 * time.Second}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var looks []ledger.Observation
			for s := range 4 {
				o := look(float64(s), tt.processes, tt.allocations...)
				if tt.mig {
					o = onInstance(o, "1")
				}
				looks = append(looks, o)
			}
			got := times{}
			for _, g := range ask(t, newLedger(), looks...).Groups() {
				got[g.Name] = g.GPUTime.Round(time.Microsecond)
			}
			for name := range tt.want {
				tt.want[name] = tt.want[name].Round(time.Microsecond)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("GPU time (-want +got):\n%s", diff)
			}
		})
	}
}

// The time of a gap must count for an owner that held the GPU at both ends.
func TestGPUTimeOverGap(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after gpu.Owner
		want          time.Duration
	}{
		"same holder":  {train, train, time.Hour},
		"other holder": {serve, train, 0},
	} {
		b := ask(t, newLedger(), look(0, nil, holds(tt.before, 1)), look(3600, nil, holds(tt.after, 1)))
		for _, g := range b.Groups() {
			if g.Name == tt.after.Name && g.GPUTime != tt.want {
				t.Errorf("%s: GPU time %v, want %v", name, g.GPUTime, tt.want)
			}
		}
	}
}
