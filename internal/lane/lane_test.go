package lane_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuledger/gpuledger/internal/lane"
)

func after(d time.Duration) func() int {
	return func() int {
		time.Sleep(d)
		return 7
	}
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if v, ok := lane.Run(ctx, after(time.Millisecond)); v != 7 || !ok {
			t.Errorf("result %d, %v; want 7, true", v, ok)
		}
		if v, ok := lane.Run(ctx, after(time.Minute)); v != 0 || ok {
			t.Errorf("result after the deadline: %d, %v; want 0, false", v, ok)
		}
		time.Sleep(time.Minute) // wait until the late work has ended
	})
}

// TestLate checks a late result. The first call of Take waits for the result. Later calls return immediately until the
// result is ready.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lane.Lane[int]
		take := func(wait time.Duration) (v int, ok bool, took time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			began := time.Now()
			v, ok = l.Take(ctx)
			return v, ok, time.Since(began)
		}
		if _, ok, took := take(time.Second); ok || took != 0 || l.Busy() {
			t.Errorf("Take of an idle lane: %v after %v, want false at once", ok, took)
		}
		l.Begin(after(time.Minute))
		for i, want := range []time.Duration{time.Second, 0, 0} {
			if _, ok, took := take(time.Second); ok || !l.Busy() || !l.Late() || took != want {
				t.Errorf("Take %d: %v after %v, want false after %v", i, ok, took, want)
			}
		}
		time.Sleep(time.Minute)
		if v, ok, took := take(time.Second); v != 7 || !ok || took != 0 || l.Busy() {
			t.Errorf("Take of the late result: %d, %v after %v, want 7, true at once", v, ok, took)
		}
		l.Begin(after(time.Millisecond))
		if v, ok, _ := take(time.Second); v != 7 || !ok || l.Late() {
			t.Errorf("Take of the next result: %d, %v, late %v, want 7, true, false", v, ok, l.Late())
		}
	})
}
