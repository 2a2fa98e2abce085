// Package events receives the events of pods and workloads that gpuledger-reconciler sends, and
// files them in sinks. It responds when each sink has them or failed, so a sender repeats what no
// sink has. What some sinks have waits for the others in bounded queues.
package events

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/event"
)

const (
	// maxBody limits the body of a request, maxText the text in it, in bytes. A sender has at most
	// a megabyte and one line in a request.
	maxBody = 8 << 20
	maxText = 16 << 20
	// maxCluster limits the name of a cluster, in bytes.
	maxCluster = 253
	// readTime limits the reading of a request, fileTime the filing. Together they are shorter
	// than a sender waits.
	readTime = 8 * time.Second
	fileTime = 20 * time.Second
	// farewell is the time for the last request at shutdown.
	farewell = 500 * time.Millisecond
	// retryAfter is when a sender tries again, in seconds.
	retryAfter = "5"
)

// Sink keeps events.
type Sink interface {
	// Append adds rows of one of [table.Appended], except those whose key is filed already.
	Append(ctx context.Context, t table.Table, rows [][]any) error
	Close() error
}

// Destination is a sink that is opened when it is needed, and again after a failure.
type Destination struct {
	Name string
	Open func(ctx context.Context) (Sink, error)
}

// Receiver is the handler of requests with events.
type Receiver struct {
	access  *access
	counts  counts
	log     *slog.Logger
	turn    chan struct{} // has room for the only request that is read and filed
	outlets []*outlet

	mu sync.Mutex
	// repeated has the clusters with a request to repeat their state since a sink may have lost events.
	repeated map[string]bool
}

// New returns a receiver that files events in all destinations. Run must run as well.
func New(c Config, destinations []Destination, log *slog.Logger) *Receiver {
	r := &Receiver{access: newAccess(c.TokenFile, log), counts: newCounts(), log: log, turn: make(chan struct{}, 1)}
	r.repeat()
	for _, d := range destinations {
		r.outlets = append(r.outlets, &outlet{
			Destination: d, log: log.With("sink", d.Name), counts: r.counts.sink(d.Name), repeat: r.repeat, wake: make(chan struct{}, 1),
		})
	}
	return r
}

// repeat lets every cluster repeat its state: at the start, because the queues of the last run were
// lost, and after events were dropped.
func (r *Receiver) repeat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.repeated = make(map[string]bool)
}

// ask asks the sender of a cluster to repeat its state, once.
func (r *Receiver) ask(w http.ResponseWriter, cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.repeated[cluster] {
		r.repeated[cluster] = true
		w.Header().Set(event.RepeatHeader, "true")
	}
}

// refusal is the status of a request that is not accepted.
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
		http.Error(w, "no sink filed the events: the log has the reason", http.StatusServiceUnavailable)
	}
}

// receive files the events of a request.
func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) error {
	if req.Method != http.MethodPost {
		return refuse(http.StatusMethodNotAllowed, "method %s: must be POST", req.Method)
	}
	if err := r.access.check(req); err != nil {
		return err
	}
	cluster := req.URL.Query().Get(event.ClusterParameter)
	if cluster == "" || len(cluster) > maxCluster || !utf8.ValidString(cluster) || strings.ContainsRune(cluster, 0) {
		return refuse(http.StatusBadRequest, "the parameter %s must be the name of the cluster, with at most %d bytes", event.ClusterParameter, maxCluster)
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-req.Context().Done():
		return req.Context().Err()
	}
	control := http.NewResponseController(w)
	now := time.Now()
	// Errors mean that the connection has no deadlines, as in tests.
	_ = control.SetReadDeadline(now.Add(readTime))
	_ = control.SetWriteDeadline(now.Add(readTime + fileTime + time.Second))
	b, err := read(w, req)
	if err != nil {
		return err
	}
	b.cluster = cluster
	ctx, cancel := context.WithTimeout(req.Context(), fileTime)
	defer cancel()
	if err := r.file(ctx, b); err != nil {
		return err
	}
	r.ask(w, cluster)
	return nil
}

// read returns the events in the body of a request.
func read(w http.ResponseWriter, req *http.Request) (b batch, err error) {
	var body io.Reader = http.MaxBytesReader(w, req.Body, maxBody)
	switch encoding := req.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip":
		if body, err = gzip.NewReader(body); err != nil {
			return b, unreadable(err)
		}
	default:
		return b, refuse(http.StatusUnsupportedMediaType, "content encoding %q: must be gzip or none", encoding)
	}
	text := &io.LimitedReader{R: body, N: maxText}
	for e, err := range event.Decode(text) {
		switch {
		case text.N <= 0:
			return b, refuse(http.StatusRequestEntityTooLarge, "the text has more than %d bytes", maxText)
		case err != nil:
			return b, unreadable(err)
		}
		b.events = append(b.events, e)
	}
	if text.N <= 0 {
		return b, refuse(http.StatusRequestEntityTooLarge, "the text has more than %d bytes", maxText)
	}
	b.size = int(maxText - text.N)
	return b, nil
}

// unreadable returns the refusal of a body, or the error of the connection.
func unreadable(err error) error {
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return refuse(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", maxBody)
	case errors.Is(err, event.ErrInvalid), errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, new(flate.CorruptInputError)):
		return &refusal{err, http.StatusBadRequest}
	}
	return err
}

// file files events in all sinks at the same time. A sink that fails gets them later. It fails if
// no sink has them.
func (r *Receiver) file(ctx context.Context, b batch) error {
	errs := make([]error, len(r.outlets))
	var all sync.WaitGroup
	for i, o := range r.outlets {
		all.Go(func() { errs[i] = o.file(ctx, b) })
	}
	all.Wait()
	if len(errs) > 0 && !slices.Contains(errs, nil) {
		return errors.Join(errs...)
	}
	for i, o := range r.outlets {
		if errs[i] != nil {
			o.keep(b)
		}
	}
	return nil
}

// Run files what waits for sinks that failed. When the context ends it closes the sinks, unless a
// request takes longer.
func (r *Receiver) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, o := range r.outlets {
		all.Go(func() { o.run(ctx) })
	}
	all.Wait()
	<-ctx.Done()
	select {
	case r.turn <- struct{}{}: // and no request is read any more
	case <-time.After(farewell):
		return nil
	}
	for _, o := range r.outlets {
		o.close()
	}
	return nil
}
