package workloads

import (
	"slices"
	"strconv"
	"time"

	"github.com/gpuledger/gpuledger/internal/event"
)

const (
	eventPhase     = "phase"
	eventCondition = "condition"
	eventFailure   = "failure" // a container ended with an error
	eventSpec      = "spec"
	eventDeleted   = "deleted"
	eventSnapshot  = event.Snapshot
)

func eventNames() []string {
	return []string{eventPhase, eventCondition, eventFailure, eventSpec, eventDeleted, eventSnapshot, eventCreated, eventEnded}
}

// change is an event of a pod. After a change of leader or a broken watch, the program may write the event again. The
// event must then have the same id. Therefore the id does not depend on the time of observation. If another part
// distinguishes the event, the id omits the pod's resource version, because a new leader may see only a later version.
type change struct {
	name    string
	which   []string // part of the id that distinguishes the pod's events of this name
	at      time.Time
	details details
	// unsure is set if an earlier leader may have sent the same event with another time. The event is then logged but
	// not sent, because the archive could store it as a second row.
	unsure bool
}

type details map[string]any

func moment(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// A new leader also writes events that are at most this old, because the previous leader may have missed the events.
const recently = 5 * time.Minute

// changes returns the events that occurred between two versions of a pod, except events before the time since. The
// argument before is nil if no earlier version of the pod is known.
func changes(before, after *pod, since time.Time) []change {
	is := after.status
	if is == nil {
		return nil // events are disabled
	}
	was := &status{spec: is.spec}
	if before != nil {
		was = before.status
	}
	var events []change
	if was.phase != is.phase {
		e := phaseEvent(was, after)
		e.unsure = before == nil && is.entered.IsZero()
		events = append(events, e)
	}
	for _, c := range is.conditions {
		is, at := c.state.Value(), time.Unix(c.since, 0).UTC()
		if old := was.condition(is.name); old != is {
			events = append(events, conditionEvent(old, is, at))
		}
	}
	for _, c := range is.containers {
		if e := c.ended; e != nil && e.bad() && !e.same(was.container(c.name).ended) {
			events = append(events, failureEvent(c))
		}
	}
	if was.spec != is.spec {
		events = append(events, specEvent(after))
	}
	return slices.DeleteFunc(events, func(e change) bool { return e.at.Before(since) })
}

func (e *ending) bad() bool { return e.exitCode != 0 || e.signal != 0 }

func (e *ending) same(other *ending) bool { return other != nil && *e == *other }

// phaseEvent returns the event for the pod's current phase. If the status does not contain the time at which the phase
// began, the event has the latest time in the status.
func phaseEvent(was *status, p *pod) change {
	is, at := p.status, p.status.entered
	if at.IsZero() {
		at = p.changed()
	}
	return change{name: eventPhase, which: []string{is.phase}, at: at, details: details{
		"from": was.phase, "to": is.phase, "reason": is.reason,
	}}
}

func conditionEvent(was, is state, at time.Time) change {
	return change{name: eventCondition, which: []string{is.name, is.status, is.reason, moment(at)}, at: at, details: details{
		"condition": is.name, "from": was.status, "to": is.status, "reason": is.reason,
	}}
}

// The id of a failure event omits the number of restarts, because this number is higher if the program sees the failure
// only after the restart.
func failureEvent(c container) change {
	which := []string{c.name, strconv.Itoa(int(c.ended.exitCode)), moment(c.ended.at)}
	return change{name: eventFailure, which: which, at: c.ended.at, details: details{
		"container": c.name, "reason": c.ended.reason,
		"exit_code": c.ended.exitCode, "signal": c.ended.signal, "restarts": c.restarts,
	}}
}

// specEvent returns the event for a change of the spec, such as another image, a removed scheduling gate or a debug
// container. Only a snapshot of the pod contains the details.
func specEvent(p *pod) change {
	return change{name: eventSpec, which: []string{p.version}, at: time.Now(), details: details{
		"generation": p.generation, "spec": strconv.FormatUint(p.status.spec, 16),
	}}
}

func deletedEvent() change { return change{name: eventDeleted, at: time.Now()} }

func (p *pod) changed() time.Time {
	last := p.created
	for _, c := range p.status.conditions {
		last = later(last, time.Unix(c.since, 0))
	}
	for _, c := range p.status.containers {
		if c.ended != nil {
			last = later(last, c.ended.at)
		}
	}
	return last
}
