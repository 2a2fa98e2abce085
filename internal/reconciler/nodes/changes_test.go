package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// lease implements Record. While err is set, Edit fails.
type lease struct {
	mu          sync.Mutex
	annotations map[string]string
	err         error
}

func (l *lease) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func (l *lease) Edit(_ context.Context, edit func(map[string]string)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	edited := maps.Clone(l.annotations)
	if edited == nil {
		edited = make(map[string]string)
	}
	edit(edited)
	l.annotations = edited
	return nil
}

// newFleet creates Nodes with exporters, and waits until they are labelled.
func (w *world) newFleet(size int) []string {
	w.t.Helper()
	var nodes []string
	for i := range size {
		nodes = append(nodes, fmt.Sprintf("node-%02d", i))
		w.createExporter(nodes[i])
	}
	_, stop := w.lead()
	w.wait(time.Minute)
	stop()
	if got := w.labelled(nodes, "-1"); len(got) != size {
		w.t.Fatalf("%d of %d Nodes have labels", len(got), size)
	}
	return nodes
}

// TestBudgetOutlivesTerms checks that a leader with many restarts changes no more Nodes than a leader without restarts.
// After an hour, the budget must be available again.
func TestBudgetOutlivesTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		nodes := w.newFleet(40)
		for _, n := range nodes {
			w.setSerial(n, n+"-2")
		}
		for range 3 {
			_, stop := w.lead()
			w.wait(2 * time.Minute)
			stop()
		}
		if got := len(w.labelled(nodes, "-2")); got != 10 {
			t.Errorf("%d Nodes changed in three terms of one hour, want 10", got)
		}
		_, stop := w.lead()
		defer stop()
		w.wait(time.Hour)
		if got := len(w.labelled(nodes, "-2")); got != 20 {
			t.Errorf("%d Nodes changed after an hour, want 20", got)
		}
	})
}

func TestApprovedChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		nodes := w.newFleet(60)
		for _, n := range nodes {
			w.setSerial(n, n+"-2")
		}
		_, stop := w.lead()
		w.wait(2 * time.Minute)
		_ = w.lease.Edit(t.Context(), func(annotations map[string]string) { annotations[approvedKey] = "40" })
		w.wait(2 * time.Minute)
		stop()
		if got := len(w.labelled(nodes, "-2")); got != 50 {
			t.Errorf("%d Nodes changed, want 10 and the 40 approved changes", got)
		}
		if got := w.lease.annotations; len(got) != 1 || got[spentKey] == "" {
			t.Errorf("annotations: %v", got)
		}
		for _, message := range []string{"applying approved changes of identity", "all approved changes of identity were applied"} {
			if n := strings.Count(w.logs.String(), message); n != 1 {
				t.Errorf("the log contains %q %d times", message, n)
			}
		}
	})
}

// TestApprovalExpires checks that unused reserved changes expire at the same time as the approval.
func TestApprovalExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		nodes := w.newFleet(40)
		_, stop := w.lead()
		defer stop()
		for _, n := range nodes[:11] {
			w.setSerial(n, n+"-2")
		}
		w.wait(15 * time.Minute)
		_ = w.lease.Edit(t.Context(), func(annotations map[string]string) { annotations[approvedKey] = "400" })
		w.wait(2 * time.Minute)
		if got := len(w.labelled(nodes, "-2")); got != 11 {
			t.Fatalf("%d Nodes changed, want 10 and an approved change", got)
		}
		w.wait(25 * time.Hour)
		for _, n := range nodes {
			w.setSerial(n, n+"-3")
		}
		w.wait(30 * time.Minute)
		if got := len(w.labelled(nodes, "-3")); got != 10 {
			t.Errorf("%d Nodes changed a day after the approval expired, want 10", got)
		}
	})
}

func TestUnrecordedChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		nodes := w.newFleet(2)
		w.setSerial(nodes[0], nodes[0]+"-2")
		w.lease.fail(errors.New("the API server is unreachable"))
		_, stop := w.lead()
		defer stop()
		w.wait(5 * time.Minute)
		if got := w.labelled(nodes, "-2"); len(got) > 0 {
			t.Errorf("Nodes were changed although the changes were not recorded: %v", got)
		}
		if n := strings.Count(w.logs.String(), "cannot save the change budget"); n != 1 {
			t.Errorf("the log reports the failure %d times", n)
		}
		w.lease.fail(nil)
		w.wait(2 * time.Minute)
		if got := w.labelled(nodes, "-2"); len(got) != 1 {
			t.Errorf("changed: %v", got)
		}
	})
}

func TestReserve(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const tomorrow, yesterday = "2026-03-02T12:00:00Z", "2026-02-28T12:00:00Z"
	tests := []struct {
		name              string
		before            map[string]string
		want              approval
		approved, expires string // annotations after the reservation
		until             string // time at which the reserved changes expire
	}{
		{"none", nil, approval{}, "", "", ""},
		{"one", map[string]string{approvedKey: "1"}, approval{reserved: 1, first: true}, "", "", tomorrow},
		{"a fleet", map[string]string{approvedKey: "5000"}, approval{reserved: 251, left: 4749, first: true}, "4749", tomorrow, tomorrow},
		{"the next part of a fleet", map[string]string{approvedKey: "4749", untilKey: tomorrow}, approval{reserved: 238, left: 4511}, "4511", tomorrow, tomorrow},
		{"expired", map[string]string{approvedKey: "9", untilKey: yesterday}, approval{left: 9, expired: true}, "", "", ""},
		{"with a limit of the administrator", map[string]string{approvedKey: "30", untilKey: "2026-04-01T00:00:00Z"}, approval{reserved: 2, left: 28}, "28", "2026-04-01T00:00:00Z", "2026-04-01T00:00:00Z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			after := maps.Clone(tt.before)
			got := reserve(after, now)
			if until := got.until.Format(time.RFC3339); tt.until != "" && until != tt.until {
				t.Errorf("the reserved changes expire at %s, want %s", until, tt.until)
			}
			got.until = time.Time{}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(approval{})); diff != "" {
				t.Errorf("approval (-want +got):\n%s", diff)
			}
			if after[approvedKey] != tt.approved || after[untilKey] != tt.expires {
				t.Errorf("annotations: %v", after)
			}
		})
	}
	for _, invalid := range []map[string]string{{approvedKey: "all"}, {approvedKey: "-1"}, {approvedKey: "5", untilKey: "soon"}} {
		after := maps.Clone(invalid)
		if got := reserve(after, now); got.err == nil || got.reserved > 0 || !maps.Equal(invalid, after) {
			t.Errorf("%v: %+v", invalid, got)
		}
	}
}
