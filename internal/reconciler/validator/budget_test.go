package validator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/reconciler/validator"
)

func TestBudget(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for fleet, want := range map[int]int{1: 10, 999: 10, 5000: 50} {
		t.Run(fmt.Sprint(fleet), func(t *testing.T) {
			b := validator.NewBudget()
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
				t.Error("a repeated change is refused")
			}
			if b.Take("late", "change", fleet, now.Add(59*time.Minute)) || !b.Take("late", "change", fleet, now.Add(time.Hour)) {
				t.Error("the budget is not available again after an hour")
			}
		})
	}
}

// TestBudgetOfOneNode checks a node that changes repeatedly. The budget must refuse its further changes. These changes
// must not reduce the budget of other nodes.
func TestBudgetOfOneNode(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b := validator.NewBudget()
	took := 0
	for i := range 100 {
		if b.Take("flips", fmt.Sprint(i), 100, now) {
			took++
		}
	}
	if took != 4 {
		t.Errorf("a node changed %d times in an hour, want 4", took)
	}
	for i := range 9 {
		if !b.Take(fmt.Sprint("node", i), "change", 100, now) {
			t.Errorf("no budget for node %d", i)
		}
	}
}

// TestApprove checks that approved changes are added to the budget. A node that changes repeatedly must use only one
// approved change.
func TestApprove(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b := validator.NewBudget()
	b.Approve(5, now, now.Add(time.Hour))
	for i := range 100 {
		b.Take("flips", fmt.Sprint(i), 100, now)
	}
	took := 0
	for i := range 100 {
		if b.Take(fmt.Sprint("node", i), "change", 100, now) {
			took++
		}
	}
	if took != 9+4 {
		t.Errorf("%d other nodes changed, want 9 within the budget and 4 approved ones", took)
	}
	if !b.Take("node12", "change", 100, now) {
		t.Error("an approved change is refused at the second attempt")
	}
}

func restore(t *testing.T, b *validator.Budget) (text []byte, restored *validator.Budget) {
	t.Helper()
	text, err := b.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	restored = validator.NewBudget()
	if err := restored.UnmarshalText(text); err != nil {
		t.Fatal(err)
	}
	return text, restored
}

func TestBudgetText(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b := validator.NewBudget()
	for i := range 10 {
		b.Take(fmt.Sprint("node", i), "change", 100, now)
	}
	text, restored := restore(t, b)
	later := now.Add(59 * time.Minute)
	if restored.Take("late", "change", 100, later) || !restored.Take("node9", "change", 100, later) {
		t.Errorf("the budget that was restored from %s differs", text)
	}
	for _, invalid := range []string{"", "[]", `{"a":1}`} {
		if err := validator.NewBudget().UnmarshalText([]byte(invalid)); err == nil {
			t.Errorf("%q is restored", invalid)
		}
	}
}

// TestBudgetOfWrongClock checks a budget with times in the future, from a leader with a wrong clock.
func TestBudgetOfWrongClock(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b := validator.NewBudget()
	for i := range 10 {
		b.Take(fmt.Sprint("node", i), "change", 100, now.AddDate(1, 0, 0))
	}
	_, restored := restore(t, b)
	for name, b := range map[string]*validator.Budget{"restored": restored, "in memory": b} {
		if b.Take("late", "change", 100, now) {
			t.Errorf("%s: the used budget is available again at once", name)
		}
		if !b.Take("late", "change", 100, now.Add(time.Hour)) {
			t.Errorf("%s: the budget is not available again after an hour", name)
		}
	}
}

// TestBudgetOfFailedWrites checks that a repeated change uses no budget, because its first write may have failed.
func TestBudgetOfFailedWrites(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b := validator.NewBudget()
	for change := range 4 {
		for try := range 10 {
			if !b.Take("a", fmt.Sprint(change), 100, now) {
				t.Errorf("change %d is refused at attempt %d", change, try)
			}
		}
	}
	if b.Take("a", "one more", 100, now) {
		t.Error("a fifth change is allowed")
	}
}
