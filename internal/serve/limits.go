package serve

import (
	"fmt"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

// What one connection may cost, in time and in memory. Connections are bounded in
// number, so all of it together is.
const (
	// readTime is for the header and for the whole request, whose body nobody reads.
	readHeaderTime = 5 * time.Second
	readTime       = 10 * time.Second
	// writeTime is for making the answer and for its reader, who would have given up
	// by then: Prometheus does after ten seconds unless it is told otherwise.
	writeTime = 30 * time.Second
	// idleTime is how long a connection is kept between two requests: longer than
	// between two scrapes, so that a scraper that is connected need not wait for its
	// turn when many others connect.
	idleTime       = 150 * time.Second
	maxHeaderBytes = 16 << 10
	// A scraper asks for a page or two at a time. Streams of HTTP/2 that wait for their
	// password to be checked are not counted as requests yet.
	maxStreams = 8
	// maxBodyBytes is what HTTP/2 keeps of bodies that nobody reads, maxFrameBytes what
	// it reads at once. Both are the least it can be told.
	maxBodyBytes  = 64 << 10
	maxFrameBytes = 16 << 10
	// retryAfter is in seconds.
	retryAfter = "5"
)

func newServer(handler http.Handler, cfg Config) *http.Server {
	return &http.Server{
		Handler:           Guarded(handler, cfg.MaxRequests),
		ReadHeaderTimeout: readHeaderTime,
		ReadTimeout:       readTime,
		WriteTimeout:      writeTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxStreams,
			MaxReadFrameSize:              maxFrameBytes,
			MaxReceiveBufferPerConnection: maxBodyBytes,
			MaxReceiveBufferPerStream:     maxBodyBytes,
		},
	}
}

// listen opens every address, or none. Each has so many connections at most; others
// wait with the kernel.
func listen(cfg Config) ([]net.Listener, error) {
	var listeners []net.Listener
	for _, address := range cfg.ListenAddresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			closeAll(listeners)
			return nil, err
		}
		listeners = append(listeners, netutil.LimitListener(l, cfg.MaxConnections))
	}
	return listeners, nil
}

// closeAll closes listeners, some of which the server may have closed already.
func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		_ = l.Close()
	}
}

// Guarded answers so many requests at once, and no path that is not written as ours are:
// the multiplexer would redirect to what it takes for the right one, and repeat it.
// Probes are always answered: they say whether the program can.
func Guarded(handler http.Handler, maxRequests int) http.Handler {
	s := &seats{all: maxRequests, taken: make(map[string]int)}
	refusal := fmt.Sprintf("too many requests at once: of --web.max-requests=%d, half are one address's", maxRequests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		who, _, _ := net.SplitHostPort(r.RemoteAddr)
		switch p := r.URL.EscapedPath(); {
		case p != path.Clean(p):
			http.NotFound(w, r)
		case strings.HasPrefix(p, "/-/"):
			handler.ServeHTTP(w, r)
		case s.take(who):
			defer s.leave(who)
			handler.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", retryAfter)
			http.Error(w, refusal, http.StatusServiceUnavailable)
		}
	})
}

// seats are for the requests that are being answered. An address gets half of them at
// most, so that one client that reads slowly does not keep the others out.
type seats struct {
	all int

	mu    sync.Mutex
	used  int
	taken map[string]int // by address
}

func (s *seats) take(who string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used == s.all || s.taken[who] >= (s.all+1)/2 {
		return false
	}
	s.used++
	s.taken[who]++
	return true
}

func (s *seats) leave(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	if s.taken[who]--; s.taken[who] == 0 {
		delete(s.taken, who)
	}
}
