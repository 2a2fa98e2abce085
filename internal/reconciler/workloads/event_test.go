package workloads_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (w *world) newEvents() []map[string]any {
	w.t.Helper()
	var events []map[string]any
	for line := range strings.Lines(w.events.String()) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			w.t.Fatalf("event %q: %v", line, err)
		}
		events = append(events, e)
	}
	w.events.Reset()
	return events
}

// brief removes the times, and the fields that are the same in all events of a pod.
func brief(events []map[string]any) []map[string]any {
	for _, e := range events {
		maps.DeleteFunc(e, func(k string, _ any) bool {
			return slices.Contains([]string{"time", "msg", "at", "namespace", "pod", "pod_uid", "node", "owner_kind", "owner_name"}, k)
		})
	}
	return events
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.lead()
		defer w.stop()
		now := metav1.NewTime(time.Now())

		p := gpuPod("p", "1", nil)
		p.CreationTimestamp = now
		p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", LastTransitionTime: now, Message: "0/3 nodes"}}
		w.create("pods", p)
		w.expect("created", []map[string]any{
			{"event": "phase", "id": "uid-p/phase/Pending", "resource_version": "1", "from": "", "to": "Pending", "reason": ""},
			{"event": "condition", "id": "uid-p/condition/PodScheduled/False/Unschedulable/2000-01-01T00:00:00Z", "resource_version": "1", "condition": "PodScheduled", "from": "", "to": "False", "reason": "Unschedulable"},
		})

		p = next(p)
		p.Status.Conditions[0].Message = "0/4 nodes"
		w.update("pods", p)
		w.expect("another message", nil)

		p = next(p)
		p.Status.Conditions[0].Reason = "SchedulerError"
		w.update("pods", p)
		w.expect("another reason", []map[string]any{
			{"event": "condition", "id": "uid-p/condition/PodScheduled/False/SchedulerError/2000-01-01T00:00:00Z", "resource_version": "3", "condition": "PodScheduled", "from": "False", "to": "False", "reason": "SchedulerError"},
		})

		p = next(p)
		p.Spec.NodeName, p.Status.Phase = "gpu-node-1", corev1.PodRunning
		p.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now}
		w.update("pods", p)
		w.expect("running", []map[string]any{
			{"event": "phase", "id": "uid-p/phase/Running", "resource_version": "4", "from": "Pending", "to": "Running", "reason": ""},
			{"event": "condition", "id": "uid-p/condition/PodScheduled/True//2000-01-01T00:00:00Z", "resource_version": "4", "condition": "PodScheduled", "from": "False", "to": "True", "reason": ""},
		})

		p = next(p)
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "main", RestartCount: 1,
			State:                corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Signal: 9, Reason: "OOMKilled", FinishedAt: now}},
		}}
		w.update("pods", p)
		failure := map[string]any{
			"event": "failure", "id": "uid-p/failure/main/137/2000-01-01T00:00:00Z", "resource_version": "5",
			"container": "main", "reason": "OOMKilled", "exit_code": 137.0, "signal": 9.0, "restarts": 1.0,
		}
		w.expect("killed", []map[string]any{failure})

		p = next(p)
		p.Labels = map[string]string{"a": "b"}
		w.update("pods", p)
		w.expect("label", nil)

		p = next(p)
		p.Generation = 2
		p.Spec.Containers[0].Image = "another"
		w.update("pods", p)
		if got := w.newEvents(); len(got) != 1 || got[0]["event"] != "spec" || got[0]["generation"] != 2.0 || got[0]["spec"] == "" {
			t.Errorf("new spec: %v", got)
		}

		w.delete("pods", "p")
		w.expect("deleted", []map[string]any{{"event": "deleted", "id": "uid-p/deleted", "resource_version": "7"}})

		want := []string{
			`gpuledger_pod_events_total{event="condition"} 3`, `gpuledger_pod_events_total{event="deleted"} 1`,
			`gpuledger_pod_events_total{event="failure"} 1`, `gpuledger_pod_events_total{event="phase"} 2`,
			`gpuledger_pod_events_total{event="snapshot"} 0`, `gpuledger_pod_events_total{event="spec"} 1`,
			`gpuledger_pod_events_total{event="workload_created"} 0`, `gpuledger_pod_events_total{event="workload_ended"} 0`,
		}
		if diff := cmp.Diff(want, w.page("gpuledger_pod_events_total")); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
	})
}

func (w *world) expect(when string, want []map[string]any) {
	w.t.Helper()
	if diff := cmp.Diff(want, brief(w.newEvents())); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

func TestEventIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := chain("batch/v1 Job")
		p := ended(gpuPod("p", "1", owners[0]), corev1.PodFailed, 2, time.Now())
		w := newWorld(t, nil, objects(owners, p)...)
		w.lead()
		defer w.stop()
		want := map[string]any{
			"msg": "gpu pod", "event": "failure", "id": "uid-p/failure/main/2/" + time.Now().UTC().Format(time.RFC3339), "at": time.Now().UTC().Format(time.RFC3339),
			"namespace": "team-a", "pod": "p", "pod_uid": "uid-p", "resource_version": "2", "node": "gpu-node-1",
			"owner_kind": "Job", "owner_name": "level0",
			"container": "main", "reason": "Error", "exit_code": 2.0, "signal": 0.0, "restarts": 0.0,
		}
		events := w.newEvents()
		i := slices.IndexFunc(events, func(e map[string]any) bool { return e["event"] == "failure" })
		if i < 0 {
			t.Fatalf("no failure among %v", events)
		}
		delete(events[i], "time")
		if diff := cmp.Diff(want, events[i]); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
	})
}

// TestEventsAfterHandOver checks that a new leader repeats only the events of the last minutes, with the same ids.
func TestEventsAfterHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := gpuPod("old", "1", nil)
		old.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
		w := newWorld(t, nil, old)
		w.lead()
		w.expect("an old pod", nil)
		fresh := gpuPod("fresh", "1", nil)
		fresh.CreationTimestamp = metav1.NewTime(time.Now())
		w.create("pods", fresh)
		first := brief(w.newEvents())
		w.stop()
		w.lead()
		defer w.stop()
		if len(first) != 1 {
			t.Errorf("events of a new pod are %v, want one event", first)
		}
		w.expect("again", first)
	})
}

// TestEventsBetweenLeaders ends a pod while there is no leader. The next leader must log the end of the pod, even if
// more time than the retention has passed.
func TestEventsBetweenLeaders(t *testing.T) {
	for _, retention := range []string{"-retention=1m", "-retention=10m"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, []string{retention})
			w.lead()
			p := gpuPod("p", "1", nil)
			w.create("pods", p)
			w.newEvents()
			w.stop()
			w.update("pods", ended(next(p), corev1.PodFailed, 2, time.Now()))
			time.Sleep(3 * time.Minute)
			w.lead()
			defer w.stop()
			if found := w.newEvents(); !slices.ContainsFunc(found, func(e map[string]any) bool { return e["event"] == "failure" }) {
				t.Errorf("%s: events are %v, want a failure", retention, found)
			}
			time.Sleep(time.Hour)
			w.update("pods", ended(next(next(p)), corev1.PodFailed, 2, time.Now().Add(-time.Hour)))
			if found := w.newEvents(); len(found) > 0 {
				t.Errorf("%s: events of a later version are %v", retention, found)
			}
		})
	}
}

// TestEventIDsOutliveVersions checks that a new leader repeats earlier events with the same ids, even if the leader
// sees a later version of the pod.
func TestEventIDsOutliveVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.lead()
		now := metav1.NewTime(time.Now())
		p := ended(gpuPod("p", "1", nil), corev1.PodRunning, 137, time.Now())
		p.CreationTimestamp = now
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", LastTransitionTime: now}}
		w.create("pods", p)
		first := ids(w.newEvents())
		if len(first) != 3 {
			t.Errorf("events are %v, want a phase, a condition and a failure", first)
		}
		w.stop()

		p = next(p)
		p.Labels = map[string]string{"a": "b"}
		c := &p.Status.ContainerStatuses[0]
		c.RestartCount, c.LastTerminationState, c.State = 1, c.State, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		w.update("pods", p)
		w.lead()
		defer w.stop()
		if diff := cmp.Diff(first, ids(w.newEvents())); diff != "" {
			t.Errorf("ids (-first +second leader):\n%s", diff)
		}
	})
}

func ids(events []map[string]any) (ids []any) {
	for _, e := range events {
		ids = append(ids, e["id"])
	}
	return ids
}

func TestNoEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, []string{"-events=false"})
		w.lead()
		defer w.stop()
		w.create("pods", gpuPod("p", "1", nil))
		w.update("pods", ended(gpuPod("p", "1", nil), corev1.PodFailed, 1, time.Now()))
		w.delete("pods", "p")
		w.expect("without events", nil)
	})
}

func TestNoGPUNoEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, claimOf("c", exactly("r", "nic.example.com", 1)))
		w.lead()
		defer w.stop()
		w.create("pods", claiming("c"))
		w.delete("pods", "p")
		plain := gpuPod("plain", "0", nil)
		w.create("pods", plain)
		w.delete("pods", "plain")
		w.expect("no GPU", nil)
	})
}

// TestSnapshot checks that snapshots omit secrets. In the test, each secret in a pod contains the string hunter2.
func TestSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, []string{"-snapshots=log", "-pod-annotations=example.com/project"})
		w.lead()
		defer w.stop()
		w.create("pods", secretive())
		text := w.events.String()
		if i := strings.Index(text, "hunter2"); i >= 0 {
			t.Errorf("a secret is in the log: …%s…", text[max(0, i-80):i+20])
		}
		events := w.newEvents()
		i := slices.IndexFunc(events, func(e map[string]any) bool { return e["event"] == "snapshot" })
		if i < 0 {
			t.Fatalf("no snapshot among %v", events)
		}
		if events[i]["id"] != "uid-p/snapshot/1" {
			t.Errorf("id is %v", events[i]["id"])
		}
		text, _ = asJSON(t, events[i]["object"])
		for _, kept := range []string{`"kind":"Pod"`, "registry.example/train:v1", `"path":"/ready"`, "HF_TOKEN", "example.com/project", "gpu-secrets", `"nvidia.com/gpu":"1"`} {
			if !strings.Contains(text, kept) {
				t.Errorf("%s is not in the snapshot:\n%s", kept, text)
			}
		}
	})
}

func asJSON(t *testing.T, v any) (string, error) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), nil
}

func secretive() *corev1.Pod {
	p := gpuPod("p", "1", nil)
	p.Annotations = map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": `{"env":"hunter2"}`, "vault": "hunter2", "example.com/project": "x",
	}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "hunter2"}}
	header := &corev1.HTTPGetAction{Path: "/ready?key=hunter2", HTTPHeaders: []corev1.HTTPHeader{{Name: "Authorization", Value: "hunter2"}}}
	c := &p.Spec.Containers[0]
	c.Image = "registry.example/train:v1"
	c.Command = []string{"sh", "-c", "export WANDB_API_KEY=hunter2\nexec train"}
	c.Args = []string{"--token=hunter2", "--password", "hunter2", `{"api_key":"hunter2"}`, "--db=postgres://u:hunter2@h/x", "-phunter2"}
	c.Env = []corev1.EnvVar{
		{Name: "HF_TOKEN", Value: "hunter2"},
		{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "gpu-secrets"}, Key: "k"}}},
	}
	c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: header}}
	c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"check", "-u", "me:hunter2"}}}}
	c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: header.DeepCopy()}}
	p.Spec.InitContainers = []corev1.Container{{Name: "init", Env: []corev1.EnvVar{{Name: "A", Value: "hunter2"}}}}
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Env: []corev1.EnvVar{{Name: "A", Value: "hunter2"}}}}}
	p.Spec.Volumes = []corev1.Volume{
		{Name: "a", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d", VolumeAttributes: map[string]string{"k": "hunter2"}}}},
		{Name: "b", VolumeSource: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{Driver: "d", Options: map[string]string{"k": "hunter2"}}}},
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "hunter2"}}}}
	return p
}
