package events

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/event"
)

const (
	// maxQueue limits the size of the batches that wait for a sink, in bytes.
	maxQueue = 16 << 20
	// minRetry and maxRetry limit the time until a sink that failed is tried again.
	minRetry = 5 * time.Second
	maxRetry = time.Minute
)

// errBehind means that earlier batches wait for the sink.
var errBehind = errors.New("earlier events wait")

// batch has the events of a request.
type batch struct {
	cluster string
	events  []event.Event
	size    int // of the text, in bytes
}

// outlet is a sink, and the batches that wait for it because it failed. They are in another sink.
type outlet struct {
	Destination
	log    *slog.Logger
	counts sinkCounts
	// repeat is called when the sink has all batches that waited, after others were dropped.
	repeat func()

	// sink and logged are used by run while batches wait, and else by one request at a time.
	sink   Sink   // nil while it is not open
	logged string // the last failure

	wake chan struct{} // has an element if the first batch is new

	mu      sync.Mutex
	queue   []batch
	size    int
	dropped bool
}

// file adds a batch to the sink, unless earlier ones wait.
func (o *outlet) file(ctx context.Context, b batch) error {
	if _, waits := o.next(); waits {
		return errBehind
	}
	return o.append(ctx, b)
}

// keep queues a batch until the sink works. If the queue is full, the batch is dropped.
func (o *outlet) keep(b batch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) > 0 && o.size+b.size > maxQueue {
		o.dropped = true
		o.counts.dropped.Add(float64(len(b.events)))
		return
	}
	o.queue = append(o.queue, b)
	o.resize(b.size)
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// next returns the first batch that waits.
func (o *outlet) next() (b batch, waits bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		return batch{}, false
	}
	return o.queue[0], true
}

// remove removes the first batch.
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

// run files the batches that wait, until the context ends.
func (o *outlet) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.wake:
		}
		if !o.drain(ctx) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.log.Error("stopping before all events are filed", "requests", len(o.queue))
			return
		}
	}
}

// drain files the batches that wait. It reports false if the context ended before.
func (o *outlet) drain(ctx context.Context) bool {
	retry := minRetry
	for {
		b, waits := o.next()
		if !waits {
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

// append adds a batch to the sink. The first of several equal failures is logged.
func (o *outlet) append(ctx context.Context, b batch) error {
	err := o.try(ctx, b)
	switch {
	case err == nil:
		o.counts.filed.Add(float64(len(b.events)))
		if o.logged != "" {
			o.log.Info("filing events again")
		}
		o.logged = ""
		return nil
	case err.Error() != o.logged:
		o.logged = err.Error()
		o.log.Error("cannot file events", "err", err)
	}
	o.close()
	return err
}

// try adds the rows of a batch to the sink, which may change them.
func (o *outlet) try(ctx context.Context, b batch) error {
	for _, t := range table.Appended {
		rows := table.EventRows(t, b.cluster, b.events)
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
