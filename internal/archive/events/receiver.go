// Package events receives the events of pods and workloads that gpuledger-reconciler sends, and
// files them in sinks. It responds after that, so a sender repeats what was not filed.
package events

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
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
	config  Config
	counts  counts
	log     *slog.Logger
	turn    chan struct{} // has room for the only request that is read and filed
	outlets []*outlet
}

// New returns a receiver that files events in all destinations.
func New(c Config, destinations []Destination, log *slog.Logger) *Receiver {
	r := &Receiver{config: c, counts: newCounts(), log: log, turn: make(chan struct{}, 1)}
	for _, d := range destinations {
		r.outlets = append(r.outlets, &outlet{Destination: d, log: log.With("sink", d.Name)})
	}
	return r
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
	n, err := r.receive(w, req)
	refused := new(refusal)
	switch {
	case err == nil:
		r.counts.filed(n)
	case errors.As(err, &refused):
		r.counts.requests.WithLabelValues(resultRefused).Inc()
		if refused.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, err.Error(), refused.status)
	default:
		r.counts.requests.WithLabelValues(resultFailed).Inc()
		w.Header().Set("Retry-After", retryAfter)
		http.Error(w, "the events are not filed in all sinks: the log has the reason", http.StatusServiceUnavailable)
	}
}

// receive files the events of a request, and returns their number.
func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) (n int, err error) {
	if req.Method != http.MethodPost {
		return 0, refuse(http.StatusMethodNotAllowed, "method %s: must be POST", req.Method)
	}
	if err := r.authorize(req); err != nil {
		return 0, err
	}
	cluster := req.URL.Query().Get(event.ClusterParameter)
	if cluster == "" || len(cluster) > maxCluster || !utf8.ValidString(cluster) || strings.ContainsRune(cluster, 0) {
		return 0, refuse(http.StatusBadRequest, "the parameter %s must be the name of the cluster, with at most %d bytes", event.ClusterParameter, maxCluster)
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-req.Context().Done():
		return 0, req.Context().Err()
	}
	control := http.NewResponseController(w)
	now := time.Now()
	// Errors mean that the connection has no deadlines, as in tests.
	_ = control.SetReadDeadline(now.Add(readTime))
	_ = control.SetWriteDeadline(now.Add(readTime + fileTime + time.Second))
	events, err := read(w, req)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(req.Context(), fileTime)
	defer cancel()
	return len(events), r.file(ctx, cluster, events)
}

// authorize checks the token of a request.
func (r *Receiver) authorize(req *http.Request) error {
	if r.config.TokenFile == "" {
		return nil
	}
	want, err := os.ReadFile(r.config.TokenFile)
	if err != nil {
		r.log.Error("cannot read the token of senders", "err", err)
		return err
	}
	token := strings.TrimSpace(string(want))
	got, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	// Digests have the same length, so the time does not depend on the texts.
	a, b := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(got))
	if !ok || token == "" || subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		return refuse(http.StatusUnauthorized, "the bearer token is missing or wrong")
	}
	return nil
}

// read returns the events in the body of a request.
func read(w http.ResponseWriter, req *http.Request) (events []event.Event, err error) {
	var body io.Reader = http.MaxBytesReader(w, req.Body, maxBody)
	switch encoding := req.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip":
		if body, err = gzip.NewReader(body); err != nil {
			return nil, unreadable(err)
		}
	default:
		return nil, refuse(http.StatusUnsupportedMediaType, "content encoding %q: must be gzip or none", encoding)
	}
	text := &io.LimitedReader{R: body, N: maxText}
	for e, err := range event.Decode(text) {
		switch {
		case text.N <= 0:
			return nil, refuse(http.StatusRequestEntityTooLarge, "the text has more than %d bytes", maxText)
		case err != nil:
			return nil, unreadable(err)
		}
		events = append(events, e)
	}
	if text.N <= 0 {
		return nil, refuse(http.StatusRequestEntityTooLarge, "the text has more than %d bytes", maxText)
	}
	return events, nil
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

// file files events in all sinks at the same time. A sink that fails or is slow does not stop the others.
func (r *Receiver) file(ctx context.Context, cluster string, events []event.Event) error {
	errs := make([]error, len(r.outlets))
	var all sync.WaitGroup
	for i, o := range r.outlets {
		all.Go(func() { errs[i] = o.file(ctx, cluster, events) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Run closes the sinks when the context ends, unless a request takes longer.
func (r *Receiver) Run(ctx context.Context) error {
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
