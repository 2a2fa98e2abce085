//go:build e2e

// Package history_test compares the samples in long-term storage with the events of a fleet. The fleet consists of
// simulated nodes with the real exporter in two clusters. The real Prometheus of each cluster writes to a real Thanos.
// A board is moved to another node and then to another cluster, pods end, a node dies, and each server is down for a
// while.
package history_test

import (
	"testing"
	"time"
)

// hangTimeout is much longer than a step, which takes about a second on an idle machine.
const hangTimeout = 2 * time.Minute

func eventually(t *testing.T, what string, ask func() error) {
	t.Helper()
	err := ask()
	for begun := time.Now(); err != nil; err = ask() {
		if time.Since(begun) > hangTimeout {
			t.Fatalf("timeout while waiting until %s: %v", what, err)
		}
		<-time.After(100 * time.Millisecond)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
