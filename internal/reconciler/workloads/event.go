package workloads

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The events.
const (
	eventPhase     = "phase"
	eventCondition = "condition"
	eventFailure   = "failure" // of a container
	eventSpec      = "spec"
	eventDeleted   = "deleted"
	eventSnapshot  = "snapshot"
)

func eventNames() []string {
	return []string{eventPhase, eventCondition, eventFailure, eventSpec, eventDeleted, eventSnapshot}
}

// event is a change of a pod. Its id depends on the change and not on the time of its
// observation, so that an event that is written again after a change of leader or a broken
// watch has the same id. The id includes the pod's version only where nothing else
// distinguishes events: a new leader sees a later version than the one of the change.
type event struct {
	name  string
	which []string // completes the id among the pod's events with that name
	at    time.Time
	attrs []slog.Attr
}

func (e event) id(p *pod) string {
	return strings.Join(append([]string{string(p.uid), e.name}, e.which...), "/")
}

// moment formats a time for an id.
func moment(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// recently is the age up to which events before the first list are written: a new leader may
// not have seen them.
const recently = 5 * time.Minute

// changes returns the events between two versions of a pod since a moment. before is nil if no
// version was known.
func changes(before, after *pod, since time.Time) []event {
	is := after.status
	if is == nil {
		return nil // events are disabled
	}
	was := &status{spec: is.spec}
	if before != nil {
		was = before.status
	}
	var events []event
	if was.phase != is.phase {
		events = append(events, phaseEvent(was, is, after.changed()))
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
	return slices.DeleteFunc(events, func(e event) bool { return e.at.Before(since) })
}

func (e *ending) bad() bool { return e.exitCode != 0 || e.signal != 0 }

func (e *ending) same(other *ending) bool { return other != nil && *e == *other }

func phaseEvent(was, is *status, at time.Time) event {
	return event{name: eventPhase, which: []string{is.phase}, at: at, attrs: []slog.Attr{
		slog.String("from", was.phase), slog.String("to", is.phase), slog.String("reason", is.reason),
	}}
}

func conditionEvent(was, is state, at time.Time) event {
	return event{name: eventCondition, which: []string{is.name, is.status, is.reason, moment(at)}, at: at, attrs: []slog.Attr{
		slog.String("condition", is.name), slog.String("from", was.status), slog.String("to", is.status), slog.String("reason", is.reason),
	}}
}

// failureEvent is the end of a container. Its id omits the number of restarts, which is higher
// when the same end is seen after the restart.
func failureEvent(c container) event {
	which := []string{c.name, strconv.Itoa(int(c.ended.exitCode)), moment(c.ended.at)}
	return event{name: eventFailure, which: which, at: c.ended.at, attrs: []slog.Attr{
		slog.String("container", c.name), slog.String("reason", c.ended.reason),
		slog.Int("exit_code", int(c.ended.exitCode)), slog.Int("signal", int(c.ended.signal)), slog.Int("restarts", int(c.restarts)),
	}}
}

// specEvent is a change of the spec: another image, a removed scheduling gate, a debug
// container. Only a snapshot has the details.
func specEvent(p *pod) event {
	return event{name: eventSpec, which: []string{p.version}, at: time.Now(), attrs: []slog.Attr{
		slog.Int64("generation", p.generation), slog.String("spec", strconv.FormatUint(p.status.spec, 16)),
	}}
}

func snapshotEvent(p *pod, at time.Time, annotations []string) event {
	return event{name: eventSnapshot, which: []string{p.version}, at: at, attrs: []slog.Attr{slog.Any("object", snapshot(p.full, annotations))}}
}

func deletedEvent() event { return event{name: eventDeleted, at: time.Now()} }

// changed returns the latest time in the pod's status.
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

// eventLog writes events.
type eventLog struct {
	log   *slog.Logger
	count func(event string)
	// annotations are the annotations in a snapshot.
	annotations []string

	mu sync.Mutex // guards the full pods
}

// writeEvents writes the events of a pod, and its snapshot if there are any and snapshots are
// enabled.
func (d *eventLog) writeEvents(p *pod, events []event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range events {
		d.write(p, e)
	}
	if p.full != nil && len(events) > 0 {
		d.write(p, snapshotEvent(p, events[0].at, d.annotations))
	}
	p.full = nil
}

func (d *eventLog) write(p *pod, e event) {
	attrs := []slog.Attr{
		slog.String("event", e.name), slog.String("id", e.id(p)), slog.Time("at", e.at),
		slog.String("namespace", p.namespace), slog.String("pod", p.name), slog.String("pod_uid", string(p.uid)),
		slog.String("resource_version", p.version), slog.String("node", p.node),
		slog.String("owner_kind", p.owner.kind), slog.String("owner_name", p.owner.name),
	}
	d.log.LogAttrs(context.Background(), slog.LevelInfo, "gpu pod", append(attrs, e.attrs...)...)
	d.count(e.name)
}
