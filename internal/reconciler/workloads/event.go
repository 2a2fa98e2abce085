package workloads

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
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

// event is one thing that happened to a pod. Its id is made of what happened and not
// of when it was seen: whoever tells it again, after a hand-over or a broken watch,
// gives it the same id for the same version of the pod.
type event struct {
	name    string
	subject string // which condition or container; empty for the pod as a whole
	at      time.Time
	attrs   []slog.Attr
}

// recently is how far back from the first list events are told: a leader that takes
// over may not have been the one to see them.
const recently = 5 * time.Minute

// changes returns what happened between two versions of a pod, since a moment. Before
// is nil if no version was known.
func changes(before, after *pod, since time.Time) []event {
	is := after.status
	if is == nil {
		return nil // no events are wanted
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
		if old := was.condition(c.name); old != *c.state {
			events = append(events, conditionEvent(old, c))
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
	return event{name: eventPhase, at: at, attrs: []slog.Attr{
		slog.String("from", was.phase), slog.String("to", is.phase), slog.String("reason", is.reason),
	}}
}

func conditionEvent(was state, is condition) event {
	return event{name: eventCondition, subject: is.name, at: time.Unix(is.since, 0).UTC(), attrs: []slog.Attr{
		slog.String("condition", is.name), slog.String("from", was.status), slog.String("to", is.status), slog.String("reason", is.reason),
	}}
}

func failureEvent(c container) event {
	return event{name: eventFailure, subject: c.name, at: c.ended.at, attrs: []slog.Attr{
		slog.String("container", c.name), slog.String("reason", c.ended.reason),
		slog.Int("exit_code", int(c.ended.exitCode)), slog.Int("signal", int(c.ended.signal)), slog.Int("restarts", int(c.restarts)),
	}}
}

// specEvent tells of a new spec: another image, a scheduling gate that was lifted, a
// debug container. Which of them only a snapshot says.
func specEvent(p *pod) event {
	return event{name: eventSpec, at: time.Now(), attrs: []slog.Attr{
		slog.Int64("generation", p.generation), slog.String("spec", strconv.FormatUint(p.status.spec, 16)),
	}}
}

func deletedEvent() event { return event{name: eventDeleted, at: time.Now()} }

// changed returns when the pod's status changed last, as far as it says.
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

// diary writes events.
type diary struct {
	log   *slog.Logger
	count func(event string)
	// annotations are those that a snapshot may show.
	annotations []string

	mu sync.Mutex // for the pods' full
}

// tell writes what happened to a pod, and its snapshot if anything did and it is
// wanted.
func (d *diary) tell(p *pod, events []event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range events {
		d.write(p, e)
	}
	if p.full != nil && len(events) > 0 {
		d.write(p, event{name: eventSnapshot, at: events[0].at, attrs: []slog.Attr{slog.Any("object", snapshot(p.full, d.annotations))}})
	}
	p.full = nil
}

func (d *diary) write(p *pod, e event) {
	id := string(p.uid) + "/" + p.version + "/" + e.name
	if e.subject != "" {
		id += "/" + e.subject
	}
	attrs := []slog.Attr{
		slog.String("event", e.name), slog.String("id", id), slog.Time("at", e.at),
		slog.String("namespace", p.namespace), slog.String("pod", p.name), slog.String("pod_uid", string(p.uid)),
		slog.String("resource_version", p.version), slog.String("node", p.node),
		slog.String("owner_kind", p.owner.kind), slog.String("owner_name", p.owner.name),
	}
	d.log.LogAttrs(context.Background(), slog.LevelInfo, "gpu pod", append(attrs, e.attrs...)...)
	d.count(e.name)
}
