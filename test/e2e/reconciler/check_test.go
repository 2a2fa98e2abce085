//go:build e2e

package reconciler_test

import (
	"testing"
	"time"
)

// hangTimeout is long enough for a busy machine, so it only detects a hang.
const hangTimeout = 3 * time.Minute

// eventually waits until a condition is true and returns the duration.
func eventually(t testing.TB, what string, ok func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for !ok() {
		if time.Since(begun) > hangTimeout {
			t.Fatalf("timeout while waiting until %s", what)
		}
		<-time.After(20 * time.Millisecond)
	}
	return time.Since(begun)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must returns the value of a call and fails the test if the call returned an error.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return value
	}
}
