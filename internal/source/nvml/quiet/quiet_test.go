package quiet_test

import (
	"testing"

	"github.com/gpuledger/gpuledger/internal/source/nvml/quiet"
)

const (
	limit     = 700 // W
	powerStep = 20  // time between two power samples in ms
	busyStep  = 100 // time between two utilisation samples in ms
)

// A recording contains the samples in both buffers since the start of a minute.
type recording struct {
	power, busy []quiet.Point
	ms          int64
	start       int64 // start of the minute in ms
}

// share is the busy share, from 0 to 1. watts returns the power of power sample i.
func (r *recording) add(ms int, share float64, watts func(i int) float64) {
	for i := range ms / powerStep {
		r.ms += powerStep
		r.power = append(r.power, quiet.Point{At: 1000 * (r.start + r.ms), Value: watts(i)})
		if r.ms%busyStep == 0 {
			r.busy = append(r.busy, quiet.Point{At: 1000 * (r.start + r.ms), Value: share})
		}
	}
}

func constant(w float64) func(int) float64 { return func(int) float64 { return w } }

// After this work, the power falls by 400 W within 20 ms. So the program detects that the driver averages power only
// over a short time.
func (r *recording) steep(times int) {
	for range times {
		r.add(100, 1, constant(500))
		r.add(100, 1, constant(100))
	}
}

// The power in a gap must be a low quantile of the samples that do not cover earlier work.
func TestGap(t *testing.T) {
	var r recording
	r.steep(3)
	r.add(100, 1, constant(500))
	gap := []float64{180, 150, 110, 101, 109, 102, 108, 103, 107, 104, 106, 105, 100, 120, 130}
	r.add(300, 0, func(i int) float64 { return gap[i] })
	r.add(100, 1, constant(500))
	var times quiet.Times
	// The driver averages over at most 700 W / (400 W / 20 ms) = 35 ms, so the first sample in the gap is not used. The
	// 0.2 quantile of the other 14 samples is near the fourth lowest.
	if got := times.Measure(r.power, r.busy, limit); got != 103 {
		t.Errorf("power %v W, want 103", got)
	}
}

// A gap shorter than a second must be used only if three steep falls show that the driver averages power over less than
// a second. A single steep fall may be the result of an invalid sample.
func TestAveraging(t *testing.T) {
	for steep, want := range map[int]float64{0: 0, 1: 0, 2: 0, 3: 110} {
		var r recording
		r.steep(steep)
		r.add(100, 1, constant(125))
		r.add(800, 0, constant(110))
		r.add(100, 1, constant(125))
		var times quiet.Times
		if got := times.Measure(r.power, r.busy, limit); got != want {
			t.Errorf("%d steep falls: power %v W, want %v", steep, got, want)
		}
	}
	var r recording
	r.add(100, 1, constant(125))
	r.add(2000, 0, constant(110))
	var times quiet.Times
	if got := times.Measure(r.power, r.busy, limit); got != 110 {
		t.Errorf("a gap of two seconds: power %v W, want 110", got)
	}
}

// The utilisation of these GPUs is never 0 %. If the share of high power samples equals the utilisation, the idle power
// must be known. If the utilisation does not include all work that draws power, the idle power must be unknown.
func TestMixed(t *testing.T) {
	for _, tt := range []struct {
		name string
		high int // number of high power samples out of ten
		want float64
	}{
		{"the utilisation", 4, 100},
		{"more high samples than the utilisation shows", 8, 0},
		{"fewer high samples than the utilisation shows", 2, 0},
	} {
		var r recording
		r.steep(3)
		r.add(10_000, 0.4, func(i int) float64 {
			if i%10 < tt.high {
				return 500
			}
			return 100
		})
		var times quiet.Times
		if got := times.Measure(r.power, r.busy, limit); got != tt.want {
			t.Errorf("%s: power %v W, want %v", tt.name, got, tt.want)
		}
	}
}

// Each sample must be used once, and new samples must be used when the wall clock was set back.
func TestSeenOnce(t *testing.T) {
	r := recording{start: 3_600_000}
	r.add(100, 1, constant(125))
	r.add(2000, 0, constant(110))
	var times quiet.Times
	for look, want := range []float64{110, 0} {
		if got := times.Measure(r.power, r.busy, limit); got != want {
			t.Errorf("look %d: power %v W, want %v", look, got, want)
		}
	}
	back := recording{}
	back.add(100, 1, constant(125))
	back.add(2000, 0, constant(111))
	if got := times.Measure(back.power, back.busy, limit); got != 111 {
		t.Errorf("after the clock was set back: power %v W, want 111", got)
	}
}
