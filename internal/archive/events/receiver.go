// Package events receives the events of pods and workloads from gpuledger-reconciler, and stores them in sinks. It
// responds to a request when each sink has stored the events or failed. If no sink has stored them, the sender repeats
// the request. If some sinks have stored them, the events wait for the other sinks in queues of limited size.
package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/event"
)

const (
	// readTime limits the time to read a request. fileTime limits the time to store its events. Their sum is shorter
	// than the sender's timeout.
	readTime = 8 * time.Second
	fileTime = 20 * time.Second
	// At shutdown, farewell limits the time to finish the last request. lastTry limits the time to store the waiting
	// batches.
	farewell = 500 * time.Millisecond
	lastTry  = 3 * time.Second
	// retryAfter is the value of the header Retry-After, in seconds.
	retryAfter = "5"
)

// Sink stores events.
type Sink interface {
	// Append adds rows to one of the tables in [table.Appended]. It skips rows whose keys are already in the table.
	Append(ctx context.Context, t table.Table, rows [][]any) error
	Close() error
}

// Destination is a sink that is opened for the first events, and again after a failure.
type Destination struct {
	Name string
	Open func(ctx context.Context) (Sink, error)
}

// Receiver handles POST requests that contain events.
type Receiver struct {
	access  *access
	counts  counts
	turn    chan struct{} // one request at a time
	outlets []*outlet
	// stopping ends when the last request must be cancelled.
	stopping context.Context
	stop     context.CancelFunc

	mu sync.Mutex
	// questions contains the clusters whose state was requested since events were last lost. Events are lost if the
	// program stops while they are queued, or if a full queue drops them.
	questions map[string]question
}

// New returns a receiver that stores events in all destinations. The caller must also call Run.
func New(c Config, destinations []Destination, log *slog.Logger) *Receiver {
	r := &Receiver{access: newAccess(c.TokenFile, log), counts: newCounts(), turn: make(chan struct{}, 1)}
	r.stopping, r.stop = context.WithCancel(context.Background())
	r.repeat()
	dead := &deadLetters{path: c.DeadLetter}
	for _, d := range destinations {
		r.outlets = append(r.outlets, &outlet{
			Destination: d, log: log.With("sink", d.Name), counts: r.counts.sink(d.Name), dead: dead, repeat: r.repeat, wake: make(chan struct{}, 1),
		})
	}
	return r
}

type refusal struct {
	error
	status int
}

func refuse(status int, format string, args ...any) error {
	return &refusal{fmt.Errorf(format, args...), status}
}

// ServeHTTP implements [http.Handler].
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	err := r.receive(w, req)
	refused := new(refusal)
	switch {
	case err == nil:
		r.counts.requests.WithLabelValues(outcomeFiled).Inc()
	case errors.As(err, &refused):
		r.counts.requests.WithLabelValues(outcomeOf(refused.status)).Inc()
		if refused.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, err.Error(), refused.status)
	default:
		r.counts.requests.WithLabelValues(outcomeFailed).Inc()
		w.Header().Set("Retry-After", retryAfter)
		http.Error(w, "no sink filed the events: see the log for the reason", http.StatusServiceUnavailable)
	}
}

func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) error {
	cluster := req.URL.Query().Get(event.ClusterParameter)
	if err := r.access.check(req, cluster); err != nil {
		return err
	}
	if err := table.CheckCluster(cluster); err != nil {
		return refuse(http.StatusBadRequest, "parameter %s: %w", event.ClusterParameter, err)
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-req.Context().Done():
		return req.Context().Err()
	case <-r.stopping.Done():
		return errStopped
	}
	control := http.NewResponseController(w)
	now := time.Now()
	// An error means that the connection does not support deadlines. This happens only in tests.
	_ = control.SetReadDeadline(now.Add(readTime))
	_ = control.SetWriteDeadline(now.Add(readTime + fileTime + time.Second))
	size, events, err := read(req)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(req.Context(), fileTime)
	defer cancel()
	defer context.AfterFunc(r.stopping, cancel)()
	if err := r.file(ctx, batch{cluster, table.Place(events, now), size, now}); err != nil {
		return err
	}
	r.ask(w, cluster, identify(events))
	return nil
}

// file adds events to all sinks at the same time. If a sink fails, it queues the events for this sink. It returns an
// error only if all sinks fail.
func (r *Receiver) file(ctx context.Context, b batch) error {
	errs := make([]error, len(r.outlets))
	var all sync.WaitGroup
	lacks := make([]batch, len(r.outlets))
	for i, o := range r.outlets {
		lacks[i] = b
		all.Go(func() { errs[i] = o.file(ctx, &lacks[i]) })
	}
	all.Wait()
	if len(errs) > 0 && !slices.Contains(errs, nil) {
		return errors.Join(errs...)
	}
	for i, o := range r.outlets {
		if errs[i] != nil {
			o.keep(&lacks[i])
		}
	}
	return nil
}

// Run stores the batches that wait for failed sinks. At the end of the context, it tries a last time, and writes the
// events that still wait to the dead-letter file.
func (r *Receiver) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, o := range r.outlets {
		all.Go(func() { o.run(ctx) })
	}
	all.Wait()
	<-ctx.Done()
	defer r.stop()
	if r.quiet() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTry)
		defer cancel()
		for _, o := range r.outlets {
			all.Go(func() { o.last(limited) })
		}
		all.Wait()
	}
	for _, o := range r.outlets {
		o.end()
	}
	return nil
}

// quiet waits for the last request. If the request takes too long, quiet cancels it. It returns false if the request
// still continues. After the result true, no further request is read.
func (r *Receiver) quiet() bool {
	if r.takesTurn() {
		return true
	}
	r.stop()
	return r.takesTurn()
}

// takesTurn waits until no request is being stored, and then blocks further requests. If this takes too long, it
// returns false.
func (r *Receiver) takesTurn() bool {
	select {
	case r.turn <- struct{}{}:
		return true
	case <-time.After(farewell):
		return false
	}
}
