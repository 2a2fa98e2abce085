// Package outbox sends events to the archive. While the archive is not reachable, events wait in a queue of limited
// size. If the queue is full, new events are dropped. The outbox sends the events that describe the current state of
// the cluster after drops, and when the archive requests them.
package outbox

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// maxQueue is the maximum size of the queue in bytes.
	maxQueue = 16 << 20
	// maxBatch is the size in bytes at which a batch is sent.
	maxBatch = 1 << 20
	// collect is the time for which events are collected before a batch is sent.
	collect = 2 * time.Second
	// repeatEvery is the minimum interval between two repetitions of the current state after drops.
	repeatEvery = 5 * time.Minute
	// farewell is the timeout of the last request at shutdown.
	farewell = 500 * time.Millisecond
)

// Outbox contains the events that wait to be sent. It is safe for concurrent use.
type Outbox struct {
	opts   Options
	log    *slog.Logger
	counts counts

	client *http.Client // nil until the files for the client are readable; used only by Run
	failed bool         // whether the last request failed; used only by Run

	wake chan struct{} // contains an element if there may be events to send

	mu    sync.Mutex
	lines [][]byte
	size  int
	// current yields the events that describe the cluster's current state. It is nil while this replica is not the
	// leader.
	current iter.Seq[[]byte]
	// repeat is set if the current state must be sent, but not before repeatAfter.
	repeat      bool
	repeatAfter time.Time
}

// New returns an outbox that sends nothing until Run runs.
func New(opts Options, log *slog.Logger) *Outbox {
	return &Outbox{opts: opts, log: log, counts: newCounts(), wake: make(chan struct{}, 1)}
}

// Send queues the line of an event. It does not block. If the queue is full, the event is dropped.
func (o *Outbox) Send(line []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.size+len(line) > maxQueue {
		o.counts.events.WithLabelValues(dropped).Inc()
		o.repeat = true
		return
	}
	o.lines = append(o.lines, line)
	o.resize(len(line))
	o.signal()
}

// Repeat sends the events that describe the cluster's current state, and sends them again after events were dropped.
// The caller passes nil when this replica is no longer the leader.
func (o *Outbox) Repeat(current iter.Seq[[]byte]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.current, o.repeat, o.repeatAfter = current, current != nil, time.Time{}
	o.signal()
}

func (o *Outbox) again() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.repeat = true
}

func (o *Outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *Outbox) resize(by int) {
	o.size += by
	o.counts.queue.Set(float64(o.size))
}

// Run sends events until the context ends, and then makes one last request with a short timeout.
func (o *Outbox) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
		case <-time.After(repeatEvery): // a repetition may be due
			o.sendState(ctx)
		case <-o.wake:
			o.collect(ctx)
			o.drain(ctx)
			o.sendState(ctx)
		}
		if ctx.Err() != nil {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if lines := o.next(); len(lines) > 0 && o.try(ctx, lines) == nil {
		o.remove(len(lines))
	}
	return nil
}

// collect waits while events arrive. It returns early if a batch is full.
func (o *Outbox) collect(ctx context.Context) {
	timer := time.NewTimer(collect)
	defer timer.Stop()
	for !o.full() {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-o.wake:
		}
	}
}

func (o *Outbox) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.size >= maxBatch
}

// drain sends the queued events. They remain queued until the archive has stored them.
func (o *Outbox) drain(ctx context.Context) {
	for ctx.Err() == nil {
		lines := o.next()
		if len(lines) == 0 || !o.deliver(ctx, lines) {
			return
		}
		o.remove(len(lines))
	}
}

// next returns the next batch. It does not remove the lines from the queue.
func (o *Outbox) next() [][]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return batch(o.lines)
}

func batch(lines [][]byte) [][]byte {
	size := 0
	for i, line := range lines {
		if size += len(line); size >= maxBatch {
			return lines[: i+1 : i+1]
		}
	}
	return slices.Clip(lines)
}

func (o *Outbox) remove(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, line := range o.lines[:n] {
		o.resize(-len(line))
		o.lines[i] = nil
	}
	if o.lines = o.lines[n:]; len(o.lines) == 0 {
		o.lines = nil
	}
}

// sendState sends the events that describe the current state, if they are due. Between two batches, it sends new
// events.
func (o *Outbox) sendState(ctx context.Context) {
	current := o.due()
	if current == nil {
		return
	}
	var lines [][]byte
	size := 0
	for line := range current {
		lines, size = append(lines, line), size+len(line)
		if size < maxBatch {
			continue
		}
		if !o.deliver(ctx, lines) {
			return
		}
		lines, size = nil, 0
		o.drain(ctx)
	}
	if len(lines) > 0 && o.deliver(ctx, lines) {
		o.drain(ctx)
	}
}

// due returns the events that describe the current state, or nil if they must not be sent now.
func (o *Outbox) due() iter.Seq[[]byte] {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.repeat || o.current == nil || time.Now().Before(o.repeatAfter) {
		return nil
	}
	o.repeat, o.repeatAfter = false, time.Now().Add(repeatEvery)
	return o.current
}
