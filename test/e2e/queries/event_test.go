//go:build e2e

package queries_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// event contains the compared fields of an event line from the reconciler.
type event struct {
	Event, ID, Pod    string
	From, To          string
	Container, Reason string
	ExitCode          int    `json:"exit_code"`
	OwnerKind         string `json:"owner_kind"`
	PodUID            string `json:"pod_uid"`
}

// checkEvents checks that every change in the cluster was logged exactly once.
func (l *life) checkEvents(t *testing.T) {
	phases := make(map[string][]string)
	var failures []event
	seen := make(map[string]bool)
	for _, e := range l.events(t) {
		if seen[e.ID] {
			t.Errorf("%s was logged twice", e.ID)
		}
		seen[e.ID] = true
		if e.Pod == "" {
			continue // event about a workload
		}
		if e.PodUID != string(l.pods[e.Pod].UID) {
			t.Errorf("event %s names pod %s with another UID", e.ID, e.Pod)
		}
		switch e.Event {
		case "phase":
			phases[e.Pod] = append(phases[e.Pod], e.From+">"+e.To)
		case "failure":
			failures = append(failures, event{Pod: e.Pod, Container: e.Container, Reason: e.Reason, ExitCode: e.ExitCode, OwnerKind: e.OwnerKind})
		}
	}
	wantPhases := map[string][]string{
		"nightly-1-a": {">Pending", "Pending>Running", "Running>Succeeded"}, "nightly-1-b": {">Pending", "Pending>Running", "Running>Succeeded"},
		"chat-6f-x": {">Pending", "Pending>Running"}, "waits": {">Pending"},
	}
	if diff := cmp.Diff(wantPhases, phases); diff != "" {
		t.Errorf("phases (-want +logged):\n%s", diff)
	}
	wantFailures := []event{{Pod: "chat-6f-x", Container: "main", Reason: "OOMKilled", ExitCode: 137, OwnerKind: "ReplicaSet"}}
	if diff := cmp.Diff(wantFailures, failures); diff != "" {
		t.Errorf("failures (-want +logged):\n%s", diff)
	}
}

func (l *life) events(t *testing.T) []event {
	t.Helper()
	log, err := os.ReadFile(l.log)
	check(t, err)
	var events []event
	for line := range bytes.Lines(log) {
		var e event
		check(t, json.Unmarshal(line, &e))
		if e.Event != "" {
			events = append(events, e)
		}
	}
	return events
}
