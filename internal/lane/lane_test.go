package lane_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuledger/gpuledger/internal/lane"
)

// after returns work that takes a while.
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
			t.Errorf("answer %d, %v", v, ok)
		}
		if v, ok := lane.Run(ctx, after(time.Minute)); v != 0 || ok {
			t.Errorf("late answer %d, %v", v, ok)
		}
		time.Sleep(time.Minute) // the work that is late ends too
	})
}

// TestLate: a lane that was late once costs no time until its answer is there.
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
			t.Errorf("an idle lane gives %v after %v", ok, took)
		}
		l.Begin(after(time.Minute))
		for i, want := range []time.Duration{time.Second, 0, 0} {
			if _, ok, took := take(time.Second); ok || !l.Busy() || !l.Late() || took != want {
				t.Errorf("look %d: %v after %v, want %v", i, ok, took, want)
			}
		}
		time.Sleep(time.Minute)
		if v, ok, took := take(time.Second); v != 7 || !ok || took != 0 || l.Busy() {
			t.Errorf("a minute later: %d, %v after %v", v, ok, took)
		}
		l.Begin(after(time.Millisecond))
		if v, ok, _ := take(time.Second); v != 7 || !ok || l.Late() {
			t.Errorf("the next work: %d, %v, late %v", v, ok, l.Late())
		}
	})
}
