//go:build e2e

package reconciler_test

import (
	"testing"
	"time"
)

// hangTimeout is long enough for a busy machine.
const hangTimeout = 3 * time.Minute

// eventually returns how long it waited.
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

func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return value
	}
}
