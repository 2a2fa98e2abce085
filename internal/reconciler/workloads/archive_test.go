package workloads_test

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuledger/gpuledger/internal/event"
	"github.com/gpuledger/gpuledger/internal/reconciler/workloads"
)

type sent struct {
	t       *testing.T
	mu      sync.Mutex
	events  []event.Event
	current iter.Seq[[]byte]
}

func (s *sent) Send(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, s.decode(line)...)
}

func (s *sent) Repeat(current iter.Seq[[]byte]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = current
}

func (s *sent) decode(text []byte) (events []event.Event) {
	for e, err := range event.Decode(bytes.NewReader(text)) {
		if err != nil {
			s.t.Errorf("%q: %v", text, err)
		}
		events = append(events, e)
	}
	return events
}

// take returns the events that were sent since the previous call, and the events that Repeat sent.
func (s *sent) take() (events, state []event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events, s.events = s.events, nil
	if s.current != nil {
		state = s.decode(slices.Concat(slices.Collect(s.current)...))
	}
	return events, state
}

func kindsOf(events []event.Event) (kinds []string) {
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	slices.Sort(kinds)
	return kinds
}

func (w *world) archived(args ...string) *sent {
	w.t.Helper()
	s := &sent{t: w.t}
	o := options(w.t, w.events, args...)
	o.Archive = s
	w.Workloads = workloads.New(o, w.logger)
	return s
}

// at returns the time that is the given duration after the start of the test.
func at(since time.Duration) metav1.Time {
	return metav1.NewTime(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(since))
}

// life returns successive versions of a pod that runs, restarts several times, and ends.
func life(p *corev1.Pod) []*corev1.Pod {
	p.CreationTimestamp, p.Status.Phase, p.Status.StartTime = at(0), corev1.PodPending, nil
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at(time.Second)}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: waiting}}
	versions := []*corev1.Pod{p}
	for run := range 4 {
		began := time.Duration(run+1) * 2 * time.Hour
		p = next(p)
		p.Status.Phase = corev1.PodRunning
		c := &p.Status.ContainerStatuses[0]
		c.RestartCount = int32(run)
		c.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(began)}}
		p.Status.Conditions = append(p.Status.Conditions[:1:1], corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at(began + time.Second)})
		versions = append(versions, p)

		p = next(p)
		c = &p.Status.ContainerStatuses[0]
		end := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", StartedAt: at(began), FinishedAt: at(began + time.Hour)}}
		p.Status.Conditions = append(p.Status.Conditions[:1:1], corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: at(began + time.Hour)})
		if c.State = waiting; run == 3 {
			c.State, p.Status.Phase = end, corev1.PodFailed
		} else {
			c.LastTerminationState = end
		}
		versions = append(versions, p)
	}
	return versions
}

func TestArchive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := chain("batch/v1 Job", "batch/v1 CronJob")
		owners[0].CreationTimestamp, owners[1].CreationTimestamp = at(-time.Minute), at(-24*time.Hour)
		w := newWorld(t, nil, objects(owners)...)
		archive := w.archived("-retention=1m", "-snapshots=send")
		w.lead()
		defer w.stop()
		for i, p := range life(gpuPod("p", "1", owners[0])) {
			if i == 0 {
				w.create("pods", p)
			} else {
				w.update("pods", p)
			}
		}
		w.delete("pods", "p")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		events, state := archive.take()
		want := slices.Concat(
			slices.Repeat([]string{"condition"}, 9), []string{"deleted"}, slices.Repeat([]string{"failure"}, 4), slices.Repeat([]string{"phase"}, 3),
			slices.Repeat([]string{"snapshot"}, 10), slices.Repeat([]string{"workload_created"}, 2), slices.Repeat([]string{"workload_ended"}, 2),
		)
		if diff := cmp.Diff(want, kindsOf(events)); diff != "" {
			t.Errorf("kinds (-want +sent):\n%s", diff)
		}
		if len(state) > 0 {
			t.Errorf("the state without pods is %+v", state)
		}
		i := slices.IndexFunc(events, func(e event.Event) bool { return e.Kind == "workload_created" && e.WorkloadKind == "Job" })
		created := event.Event{
			Kind: "workload_created", ID: "job-level0/workload_created", At: at(-time.Minute).Time, Namespace: "team-a",
			WorkloadKind: "Job", WorkloadName: "level0", WorkloadUID: "job-level0", OwnerKind: "CronJob", OwnerName: "level1",
		}
		if diff := cmp.Diff(created, events[i]); diff != "" {
			t.Errorf("workload (-want +sent):\n%s", diff)
		}

		// The log contains the same events, except snapshots and the creation of workloads long before the test.
		logged := w.newEvents()
		n := 0
		for _, e := range events {
			if e.Kind != "snapshot" && e.WorkloadKind+e.Kind != "CronJobworkload_created" {
				n++
			}
		}
		if len(logged) != n || strings.Contains(w.events.String(), "snapshot") {
			t.Errorf("%d events are logged, want %d", len(logged), n)
		}
	})
}

// TestWorkloadEnd checks the events for the ends of workloads. One call of sweep removes all pods of all workloads,
// because they end shortly after one another. There are many workloads, because the pods of a few workloads could be
// removed in the right order by chance.
func TestWorkloadEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs, pods = 20, 4
		var owners []*metav1.PartialObjectMetadata
		for j := range jobs {
			owners = append(owners, object("batch/v1", "Job", "team-a", "job"+strconv.Itoa(j), nil))
			owners[j].CreationTimestamp = at(-time.Minute)
		}
		w := newWorld(t, nil, objects(owners)...)
		archive := w.archived("-retention=10m")
		w.lead()
		defer w.stop()
		name := func(job, pod int) string { return "p" + strconv.Itoa(job) + "-" + strconv.Itoa(pod) }
		for j, owner := range owners {
			for i := range pods {
				w.create("pods", gpuPod(name(j, i), "1", owner))
			}
		}
		time.Sleep(31 * time.Second) // sweep runs every 30 seconds
		want := make(map[string]time.Time)
		for i := range pods {
			for j, owner := range owners {
				time.Sleep(100 * time.Millisecond)
				w.delete("pods", name(j, i))
				want[owner.Name] = time.Now().UTC()
			}
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		events, _ := archive.take()
		ended := make(map[string]time.Time)
		for _, e := range events {
			if e.Kind == "workload_ended" {
				ended[e.WorkloadName] = e.At
			}
		}
		if diff := cmp.Diff(want, ended); diff != "" {
			t.Errorf("ends of the workloads (-want +got):\n%s", diff)
		}
	})
}

// TestArchiveAfterHandOver checks that a new leader repeats all earlier events with the same ids and times. The leader
// changes after each version of the pod.
func TestArchiveAfterHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := chain("batch/v1 Job")
		owners[0].CreationTimestamp = at(-time.Minute)
		w := newWorld(t, nil, objects(owners)...)
		archive := w.archived("-retention=240h", "-snapshots=send", "-events=false")
		w.lead()
		known := make(map[string]time.Time)
		note := func(step string, events []event.Event) {
			for _, e := range events {
				if before, ok := known[e.ID]; ok && !before.Equal(e.At) {
					t.Errorf("%s: the time of %s is %s, but was %s before", step, e.ID, e.At, before)
				}
				known[e.ID] = e.At
			}
		}
		for i, p := range life(gpuPod("p", "1", owners[0])) {
			if i == 0 {
				w.create("pods", p)
			} else {
				w.update("pods", p)
			}
			events, _ := archive.take()
			note("version "+p.ResourceVersion, events)
			w.stop()
			w.lead()
			again, state := archive.take()
			note("after version "+p.ResourceVersion, slices.Concat(again, state))
			if kinds := kindsOf(state); !slices.Contains(kinds, "condition") || !slices.Contains(kinds, "workload_created") {
				t.Errorf("the state contains only %v", kinds)
			}
		}
		time.Sleep(300 * time.Hour) // the retention is over
		w.stop()
		w.lead()
		if _, state := archive.take(); !slices.Contains(kindsOf(state), "phase") {
			t.Errorf("the state lacks a pod that ended before the term: %v", kindsOf(state))
		}
		w.stop()
		if _, state := archive.take(); state != nil {
			t.Error("a state is sent after the term")
		}
		for _, id := range []string{"uid-p/phase/Pending", "uid-p/phase/Running", "uid-p/phase/Failed"} {
			if _, ok := known[id]; !ok {
				t.Errorf("%s is missing in %v", id, slices.Sorted(maps.Keys(known)))
			}
		}
		if got := w.events.String(); got != "" {
			t.Errorf("the log contains no events:\n%s", got)
		}
	})
}
