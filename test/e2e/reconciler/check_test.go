//go:build e2e

package reconciler_test

import (
	"testing"
	"time"
)

// A test that waits longer than this hangs. The timeout is long enough for a busy machine.
const hangTimeout = 3 * time.Minute

// eventually waits until a condition holds, and returns how long that took.
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

// must returns the value of a call. If the call returned an error, the test fails.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return value
	}
}
