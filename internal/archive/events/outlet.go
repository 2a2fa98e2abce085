package events

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/permanent"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

const (
	// maxQueue is the maximum size of all batches that wait for a sink, in bytes.
	maxQueue = 16 << 20
	// maxChunk is the maximum number of events in one call of a sink.
	maxChunk = 5000
	// minRetry and maxRetry limit the time between two attempts to use a failed sink.
	minRetry = 5 * time.Second
	maxRetry = time.Minute
)

var (
	errBehind = errors.New("earlier events still wait for the sink")
	// errStopped is the reason in dead letters for events that still wait at the end of the program.
	errStopped = errors.New("the archive stopped before it sent the event to the sink")
)

// batch contains the events of one request.
type batch struct {
	cluster string
	events  []table.Event
	size    int // size of the request body in bytes
	arrived time.Time
}

// outlet is a sink with its waiting batches. Another sink has already stored these batches.
type outlet struct {
	Destination
	log    *slog.Logger
	counts sinkCounts
	dead   *deadLetters
	// If batches were dropped, repeat is called as soon as no batch waits.
	repeat func()

	// While batches wait, only the method run uses the fields sink and logged. At other times, only one request at a
	// time uses them.
	sink   Sink   // nil while the sink is not open
	logged string // text of the last failure that was logged

	wake chan struct{} // wakes run after the first batch was queued

	mu      sync.Mutex
	queue   []*batch
	size    int
	dropped bool
	ended   bool // the program ends, so batches are no longer queued
}

func (o *outlet) file(ctx context.Context, b *batch) error {
	if o.waits() {
		return errBehind
	}
	return o.append(ctx, b)
}

// keep queues a batch until the sink works. If the program ends, it writes the events to the dead-letter file instead.
func (o *outlet) keep(b *batch) {
	if !o.enqueue(b) {
		o.reject(b.cluster, b.events, errStopped)
	}
}

// enqueue returns false if the program ends. It drops a batch that does not fit into the queue.
func (o *outlet) enqueue(b *batch) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.ended:
		return false
	case len(o.queue) > 0 && o.size+b.size > maxQueue:
		o.dropped = true
		o.counts.dropped.Add(float64(len(b.events)))
		return true
	}
	o.queue = append(o.queue, b)
	o.resize(b.size)
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return true
}

// waits reports whether a new batch must wait. This is the case if earlier batches wait, or if the program ends.
func (o *outlet) waits() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended || len(o.queue) > 0
}

func (o *outlet) next() *batch {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		return nil
	}
	return o.queue[0]
}

func (o *outlet) age() time.Duration {
	if b := o.next(); b != nil {
		return time.Since(b.arrived)
	}
	return 0
}

func (o *outlet) remove() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.resize(-o.queue[0].size)
	if o.queue = o.queue[1:]; len(o.queue) > 0 {
		return
	}
	o.queue = nil
	if o.dropped {
		o.dropped = false
		o.repeat()
	}
}

func (o *outlet) resize(by int) {
	o.size += by
	o.counts.queue.Set(float64(o.size))
}

func (o *outlet) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.wake:
		}
		if !o.drain(ctx) {
			return
		}
	}
}

// drain stores all batches. If the context ends earlier, it returns false.
func (o *outlet) drain(ctx context.Context) bool {
	retry := minRetry
	for {
		b := o.next()
		if b == nil {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(retry):
		}
		limited, cancel := context.WithTimeout(ctx, fileTime)
		err := o.append(limited, b)
		cancel()
		if err != nil {
			retry = min(max(2*retry, minRetry), maxRetry)
			continue
		}
		retry = 0
		o.remove()
	}
}

// last makes a final attempt to store the waiting batches, and closes the sink.
func (o *outlet) last(ctx context.Context) {
	for b := o.next(); b != nil && o.append(ctx, b) == nil; b = o.next() {
		o.remove()
	}
	o.close()
}

// end writes the waiting events, and all later events, to the dead-letter file.
func (o *outlet) end() {
	o.mu.Lock()
	o.ended = true
	waiting := o.queue
	o.queue = nil
	o.resize(-o.size)
	o.mu.Unlock()
	n := 0
	for _, b := range waiting {
		n += len(b.events)
		o.reject(b.cluster, b.events, errStopped)
	}
	if n > 0 {
		o.log.Error("stopping before the sink filed all events: writing the remaining events to the dead-letter file", "events", n, "file", o.dead.path)
	}
}

// append adds the events of a batch to the sink, and removes them from the batch. If the sink rejects the batch, append
// halves it until it finds the rejected event. It writes this event to the dead-letter file.
func (o *outlet) append(ctx context.Context, b *batch) error {
	rejected, reason := 0, error(nil)
	defer func() {
		if rejected > 0 {
			o.log.Error("the sink rejects events: not sending these events again", "events", rejected, "file", o.dead.path, "err", reason)
		}
	}()
	for size := maxChunk; len(b.events) > 0; {
		n := min(size, len(b.events))
		err := o.try(ctx, b.cluster, b.events[:n])
		switch {
		case err == nil:
			o.works(n)
			b.events, size = b.events[n:], min(2*size, maxChunk)
			continue
		case !permanent.Is(err):
			o.fail(err)
			return err
		case n == 1:
			o.reject(b.cluster, b.events[:1], err)
			b.events, rejected, reason = b.events[1:], rejected+1, err
		}
		o.close()
		size = max(n/2, 1)
	}
	return nil
}

func (o *outlet) works(n int) {
	o.counts.filed.Add(float64(n))
	if o.logged != "" {
		o.log.Info("filing events again")
	}
	o.logged = ""
}

// fail closes the sink, which the next events open again. It logs only failures that differ from the previous failure.
func (o *outlet) fail(err error) {
	o.close()
	if text := err.Error(); text != o.logged {
		o.logged = text
		o.log.Error("cannot file events", "err", err)
	}
}

// reject writes events to the dead-letter file. If this fails, it drops them.
func (o *outlet) reject(cluster string, events []table.Event, reason error) {
	n := float64(len(events))
	if err := o.dead.write(o.Name, cluster, events, reason); err != nil {
		o.counts.dropped.Add(n)
		o.log.Error("events are lost: cannot write to the dead-letter file", "events", n, "reason", reason, "err", err)
		return
	}
	o.counts.rejected.Add(n)
}

// Each attempt creates its own rows, because a sink may change its rows.
func (o *outlet) try(ctx context.Context, cluster string, events []table.Event) error {
	for _, t := range table.Appended {
		rows := table.EventRows(t, cluster, events)
		if len(rows) == 0 {
			continue
		}
		if o.sink == nil {
			sink, err := o.Open(ctx)
			if err != nil {
				return err
			}
			o.sink = sink
		}
		if err := o.sink.Append(ctx, t, rows); err != nil {
			return err
		}
	}
	return nil
}

func (o *outlet) close() {
	if o.sink == nil {
		return
	}
	if err := o.sink.Close(); err != nil {
		o.log.Debug("cannot close the sink", "err", err)
	}
	o.sink = nil
}
