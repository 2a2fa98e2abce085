package serve

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// queueTime is the maximum time for which a request waits. The time is shorter than the default
	// scrape timeout of Prometheus, so that a scraper receives the reason for the refusal.
	queueTime = 5 * time.Second
	// retryAfter is the value of the header Retry-After, in seconds.
	retryAfter = "5"
)

// keptHeaders contains the headers that handlers may read, including the header for basic auth.
var keptHeaders = []string{"Accept", "Accept-Encoding", "Authorization", "Content-Encoding"}

// guard limits the number of concurrent requests. It applies the limit before passwords are checked. Probes have a
// separate limit, so that requests for pages do not delay probes. For a path that the multiplexer would redirect, guard
// responds with 404, because a redirect would cause a second request.
func (s *Server) guard(handler http.Handler) http.Handler {
	refusal := fmt.Sprintf("too many concurrent requests: --web.max-requests=%d, half of them for one client address", s.cfg.MaxRequests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		r.Header = s.keep(r.Header)
		p := r.URL.EscapedPath()
		if r.ContentLength != 0 && !s.receiving[p] {
			// This handler does not read the request body. Without the deadline, the server would wait for the rest of
			// the body.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now())
		}
		if p != path.Clean(p) {
			http.NotFound(w, r)
			return
		}
		queue := s.pages
		if strings.HasPrefix(p, "/-/") {
			queue = s.probes
		}
		address := host(r.RemoteAddr)
		if err := queue.enter(r.Context(), address); err != nil {
			if r.Context().Err() == nil { // the client is still waiting
				s.overload.add(requestRefused, address)
			}
			w.Header().Set("Retry-After", retryAfter)
			http.Error(w, refusal, http.StatusServiceUnavailable)
			return
		}
		defer queue.leave(address)
		handler.ServeHTTP(w, r)
	})
}

// keep returns only the headers that handlers may read. All headers together may take 300 KiB until the request ends.
func (s *Server) keep(header http.Header) http.Header {
	kept := make(http.Header, len(s.kept))
	for _, name := range s.kept {
		if values, ok := header[name]; ok {
			kept[name] = values
		}
	}
	return kept
}

// queue limits the number of concurrent requests, and limits each client address to half of this
// number. Requests above a limit wait in the order of their arrival. The number of waiting requests
// is limited by the number of connections.
type queue struct {
	max int
	all *semaphore.Weighted

	mu        sync.Mutex
	addresses map[string]*share
}

type share struct {
	*semaphore.Weighted
	requests int // number of requests that wait or are being answered
}

func newQueue(limit int) *queue {
	return &queue{max: limit, all: semaphore.NewWeighted(int64(limit)), addresses: make(map[string]*share)}
}

// enter waits until a request may be answered. After queueTime, it returns an error. If enter returns nil, the caller
// must call leave after the response.
func (q *queue) enter(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, queueTime)
	defer cancel()
	own := q.join(address)
	err := own.Acquire(ctx, 1)
	if err == nil {
		if err = q.all.Acquire(ctx, 1); err == nil {
			return nil
		}
		own.Release(1)
	}
	q.part(address)
	return err
}

func (q *queue) leave(address string) {
	q.all.Release(1)
	q.part(address).Release(1)
}

func (q *queue) join(address string) *share {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.addresses[address]
	if s == nil {
		s = &share{Weighted: semaphore.NewWeighted(int64(half(q.max)))}
		q.addresses[address] = s
	}
	s.requests++
	return s
}

func (q *queue) part(address string) *share {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.addresses[address]
	if s.requests--; s.requests == 0 {
		delete(q.addresses, address)
	}
	return s
}
