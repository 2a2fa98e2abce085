package gpu_test

import (
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// The queue of errors must have a bounded size, every error must be counted, and the newest error of each kind must
// keep its time.
func TestQueue(t *testing.T) {
	const kinds, each = 24, 1000
	start := time.Unix(1_800_000_000, 0)
	var waiting []gpu.DriverEvent
	for i := range kinds * each {
		x := gpu.DriverEvent{UUID: []string{"GPU-a", "GPU-b"}[i%2], Code: uint64(i % kinds), At: start.Add(time.Duration(i) * time.Second)}
		waiting = x.Queue(waiting)
		if len(waiting) > 1024+kinds {
			t.Fatalf("%d errors are queued, want 1048 at most", len(waiting))
		}
		if i < 1000 && len(waiting) != i+1 {
			t.Fatalf("%d of %d errors are queued separately, want all", len(waiting), i+1)
		}
	}
	var counted gpu.DriverEvents
	for _, x := range waiting {
		counted.Add(x)
	}
	if counted.Count != kinds*each {
		t.Errorf("%d errors are counted, want %d", counted.Count, kinds*each)
	}
	for code := range uint64(kinds) {
		if want := start.Add(time.Duration(kinds*(each-1)+int(code)) * time.Second); !counted.Last[code].Equal(want) {
			t.Errorf("last time of XID %d: %v, want %v", code, counted.Last[code], want)
		}
	}
}

func TestClone(t *testing.T) {
	var x gpu.DriverEvents
	x.Add(gpu.DriverEvent{Code: 79})
	copied := x.Clone()
	x.Add(gpu.DriverEvent{Code: 79, At: time.Unix(1, 0)})
	if copied.Count != 1 || copied.ByCode[79] != 1 || !copied.Last[79].IsZero() {
		t.Errorf("copy: %+v, want one error", copied)
	}
}
