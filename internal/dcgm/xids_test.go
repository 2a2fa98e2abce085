package dcgm_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// TestXIDs: each error is told once, in order, and none from before.
func TestXIDs(t *testing.T) {
	e := newEngine(t, pair()...)
	one, two := e.node.GPUs[0].Device.UUID, e.node.GPUs[1].Device.UUID
	e.add("xid\tgpu=%s\tseq=1\tcode=13", one)
	s := e.open()
	want := func(codes ...uint64) {
		t.Helper()
		var got []uint64
		for _, x := range gputest.Read(t, s).XIDs {
			got = append(got, x.Code)
		}
		if !slices.Equal(got, codes) {
			t.Errorf("errors are %v, want %v", got, codes)
		}
	}
	want()
	e.pass(time.Second)
	e.add("xid\tgpu=%s\tseq=2\tcode=48", one)
	e.add("xid\tgpu=%s\tseq=3\tcode=79", two)
	e.add("xid\tgpu=%s\tseq=4\tcode=63", one)
	want(48, 63, 79)
	want()
	e.pass(time.Second)
	e.fault("*", "dcgmGetMultipleValuesForField", "fail:-14")
	e.add("xid\tgpu=%s\tseq=5\tcode=31", two)
	want(31)
}

// TestXIDOfTheFuture: an error that the engine dates after now is of now.
func TestXIDOfTheFuture(t *testing.T) {
	e := newEngine(t, pair()...)
	now := e.clock.Now()
	e.cfg.Now = func() gpu.Instant { return now }
	e.clock.Advance(time.Hour)
	s := e.open()
	e.readAll(s)
	e.add("xid\tgpu=%s\tseq=1\tcode=48", e.node.GPUs[0].Device.UUID)
	for _, want := range []int{1, 0} {
		xids := gputest.Read(t, s).XIDs
		if len(xids) != want {
			t.Fatalf("errors are %v, want %d", xids, want)
		}
		for _, x := range xids {
			if x.At.After(now.Wall) {
				t.Errorf("the error is of %v, now is %v", x.At, now.Wall)
			}
		}
	}
}

// TestStorm: a GPU that has more errors than one report takes loses none.
func TestStorm(t *testing.T) {
	e := newEngine(t, pair()...)
	s := e.open()
	e.readAll(s)
	e.pass(time.Second)
	for i := range 90 {
		e.lines = append(e.lines, fmt.Sprintf("xid\tgpu=%s\tseq=%d\tcode=%d", e.node.GPUs[0].Device.UUID, i+1, 100+i))
	}
	e.write()
	var codes []uint64
	for range 3 {
		for _, x := range gputest.Read(t, s).XIDs {
			codes = append(codes, x.Code)
		}
		e.pass(time.Second)
	}
	if len(codes) != 90 || !slices.IsSorted(codes) || codes[0] != 100 || codes[89] != 189 {
		t.Errorf("%d errors: %v", len(codes), codes)
	}
}
