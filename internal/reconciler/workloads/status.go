package workloads

import (
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
)

// status contains the parts of a pod from which its events are derived.
type status struct {
	phase, reason string
	conditions    []condition
	containers    []container
	spec          uint64 // see specHash
	// entered is the time when the pod entered its phase, or zero if the status does not contain this time. While the
	// phase stays the same, entered may become zero but does not get another value.
	entered time.Time
}

type condition struct {
	state unique.Handle[state] // interned, because many pods are in the same state
	since int64                // seconds since the Unix epoch; the API server has the same resolution
}

// state omits the message of a condition, because the scheduler changes this message repeatedly.
type state struct{ name, status, reason string }

type container struct {
	name     string
	restarts int32
	// ended is the last end of the container, or nil if the container has never ended.
	ended *ending
}

type ending struct {
	exitCode, signal int32
	reason           string
	at               time.Time
}

func (w *Workloads) keepStatus(from *corev1.Pod) *status {
	s := &status{
		phase: shared(string(from.Status.Phase)), reason: shared(from.Status.Reason),
		conditions: make([]condition, 0, len(from.Status.Conditions)),
		spec:       specHash(from),
		entered:    enteredPhase(from),
	}
	for _, c := range from.Status.Conditions {
		s.conditions = append(s.conditions, condition{
			unique.Make(state{string(c.Type), string(c.Status), c.Reason}), c.LastTransitionTime.Unix(),
		})
	}
	for c := range statuses(from) {
		s.containers = append(s.containers, container{
			name: shared(c.Name), restarts: c.RestartCount, ended: w.endingOf(c),
		})
	}
	return s
}

// enteredPhase returns the time at which a pod entered its phase, or zero if the status does not contain this time.
func enteredPhase(p *corev1.Pod) time.Time {
	switch p.Status.Phase {
	case corev1.PodPending:
		return p.CreationTimestamp.Time
	case corev1.PodRunning:
		return allStarted(p.Status.ContainerStatuses)
	case corev1.PodSucceeded, corev1.PodFailed:
		var last time.Time
		for c := range statuses(p) {
			if t := c.State.Terminated; t != nil {
				last = later(last, t.FinishedAt.Time)
			}
		}
		return last
	}
	return time.Time{}
}

// allStarted returns the latest of the times at which the containers started for the first time. At this time, the
// kubelet set the phase Running. After restarts the status may no longer contain one of these times. Then the result is
// zero.
func allStarted(containers []corev1.ContainerStatus) (last time.Time) {
	for i := range containers {
		at := firstStart(&containers[i])
		if at.IsZero() {
			return at
		}
		last = later(last, at)
	}
	return last
}

// firstStart returns the start time of a container's first run, or zero if the status does not contain this run. Runs
// are numbered from zero. While the container waits, LastTerminationState describes the run with the number
// RestartCount. Otherwise, it describes the run with the number RestartCount-1.
func firstStart(c *corev1.ContainerStatus) time.Time {
	state, run := c.LastTerminationState, c.RestartCount
	if c.State.Waiting == nil {
		run--
	}
	if run < 0 {
		state = c.State
	}
	switch {
	case run > 0:
		return time.Time{}
	case state.Running != nil:
		return state.Running.StartedAt.Time
	case state.Terminated != nil:
		return state.Terminated.StartedAt.Time
	}
	return time.Time{}
}

func (w *Workloads) endingOf(c *corev1.ContainerStatus) *ending {
	t := c.State.Terminated
	if t == nil {
		t = c.LastTerminationState.Terminated
	}
	if t == nil {
		return nil
	}
	return &ending{exitCode: t.ExitCode, signal: t.Signal, reason: shared(t.Reason), at: t.FinishedAt.Time}
}

func (s *status) condition(name string) state {
	for _, c := range s.conditions {
		if is := c.state.Value(); is.name == name {
			return is
		}
	}
	return state{}
}

func (s *status) container(name string) container {
	for _, c := range s.containers {
		if c.name == name {
			return c
		}
	}
	return container{}
}
