package verdict_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/reconciler/verdict"
)

func TestBudget(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for fleet, want := range map[int]int{1: 10, 999: 10, 5000: 50} {
		t.Run(fmt.Sprint(fleet), func(t *testing.T) {
			b := verdict.NewBudget()
			took := 0
			for i := range fleet + 100 {
				if b.Take(fmt.Sprint("node", i), "change", fleet, now) {
					took++
				}
			}
			if took != want {
				t.Errorf("%d changes in a fleet of %d, want %d", took, fleet, want)
			}
			if !b.Take("node0", "change", fleet, now) {
				t.Error("a change that was paid for is refused")
			}
			if b.Take("late", "change", fleet, now.Add(59*time.Minute)) || !b.Take("late", "change", fleet, now.Add(time.Hour)) {
				t.Error("an hour is not an hour")
			}
		})
	}
}

// A node that changes again and again takes no room from others, and is stopped.
func TestBudgetOfOneNode(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b := verdict.NewBudget()
	took := 0
	for i := range 100 {
		if b.Take("flips", fmt.Sprint(i), 100, now) {
			took++
		}
	}
	if took != 4 {
		t.Errorf("one node changed %d times in an hour, want 4", took)
	}
	for i := range 9 {
		if !b.Take(fmt.Sprint("node", i), "change", 100, now) {
			t.Errorf("no room for node %d", i)
		}
	}
}

// The same change costs nothing the second time, also if it is not the first one of its
// node: its write may have failed.
func TestBudgetOfFailedWrites(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b := verdict.NewBudget()
	for change := range 4 {
		for try := range 10 {
			if !b.Take("a", fmt.Sprint(change), 100, now) {
				t.Errorf("change %d is refused at try %d", change, try)
			}
		}
	}
	if b.Take("a", "one more", 100, now) {
		t.Error("a fifth change is allowed")
	}
}
