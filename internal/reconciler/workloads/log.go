package workloads

import (
	"encoding/json"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/event"
)

const (
	podMessage      = "gpu pod"
	workloadMessage = "gpu workload"
)

type eventLog struct {
	opts  *Options
	log   *slog.Logger
	count func(event string)

	mu sync.Mutex // guards the output and pod.full
}

// writeEvents writes the events of a pod. If snapshots are enabled and there are events, it also writes a snapshot.
func (l *eventLog) writeEvents(p *pod, events []change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range events {
		l.write(c.event(p), podMessage, l.opts.Events, !c.unsure)
	}
	if p.full != nil && len(events) > 0 {
		l.writeSnapshot(p)
	}
	p.full = nil
}

// writeSnapshot writes a snapshot of a pod. The event has the time of the pod's last update, if the pod contains this
// time.
func (l *eventLog) writeSnapshot(p *pod) {
	at := p.changed()
	for _, m := range p.full.ManagedFields {
		if m.Time != nil {
			at = later(at, m.Time.Time)
		}
	}
	e := change{name: eventSnapshot, which: []string{p.version}, at: at}.event(p)
	var err error
	if e.Object, err = json.Marshal(snapshot(p.full, l.opts.PodAnnotations)); err != nil {
		l.log.Warn("cannot encode a snapshot", "namespace", p.namespace, "pod", p.name, "err", err)
		return
	}
	l.write(e, podMessage, l.opts.Snapshots == snapshotsLog, true)
}

func (l *eventLog) writeNews(news []event.Event, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range news {
		l.write(e, workloadMessage, l.opts.Events && !e.At.Before(since), true)
	}
}

func (l *eventLog) write(e event.Event, message string, logged, sent bool) {
	line, err := e.Append(nil)
	if err != nil {
		l.log.Warn("cannot encode an event", "err", err)
		return
	}
	if logged {
		_ = writeLine(l.opts.output(), message, line)
		l.count(e.Kind)
	}
	if sent && l.opts.Archive != nil {
		l.opts.Archive.Send(line)
	}
}

func writeLine(w io.Writer, message string, line []byte) error {
	head, err := json.Marshal(struct {
		Time    time.Time `json:"time"`
		Message string    `json:"msg"`
	}{time.Now(), message})
	if err != nil {
		return err
	}
	_, err = w.Write(append(append(head[:len(head)-1], ','), line[1:]...))
	return err
}

func (c change) event(p *pod) event.Event {
	e := event.Event{
		Kind: c.name, ID: event.ID(append([]string{string(p.uid), c.name}, c.which...)...), At: c.at.UTC(),
		Namespace: p.namespace, Pod: p.name, PodUID: string(p.uid), ResourceVersion: p.version, Node: p.node,
		OwnerKind: p.owner.kind, OwnerName: p.owner.name,
	}
	if c.details != nil {
		e.Details, _ = json.Marshal(c.details) // the fields are strings and numbers, so encoding cannot fail
	}
	return e
}
