package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/sync/errgroup"
)

const (
	listenAgain = 5 * time.Second
	// grace is the maximum time for open requests at shutdown. The time is short, because a driver
	// upgrade waits for the exporter's pod.
	grace = 300 * time.Millisecond
	// handover is the maximum time for open connections before the program executes itself again. New clients wait
	// during this time.
	handover = 2 * time.Second
)

// Healthy responds with status 200.
func Healthy(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("healthy\n")) }

// Ready responds with status 200 if notYet returns an empty string. Otherwise it responds with
// status 503 and the returned reason.
func Ready(notYet func() string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if missing := notYet(); missing != "" {
			http.Error(w, "not ready: "+missing, http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ready\n"))
	}
}

// Server serves a handler on the configured addresses.
type Server struct {
	cfg           Config
	log           *slog.Logger
	overload      *overload
	connections   *connections
	pages, probes *queue
	receiving     map[string]bool // paths with handlers that read request bodies
	kept          []string        // names of the headers that handlers may read
	serving       func()
	tls           *TLS        // nil if the web configuration is used
	served        atomic.Bool // set after the function serving was called
	inherited     []net.Listener
	listening     atomic.Pointer[[]net.Listener] // nil while the server does not listen
	bequeathed    atomic.Bool                    // set by Bequeath
}

// New returns a server that does not listen yet.
func New(cfg Config, log *slog.Logger) *Server {
	o := newOverload(log)
	return &Server{
		cfg: cfg, log: log, overload: o,
		connections: &connections{max: cfg.MaxConnections, overload: o, open: make(map[*connection]struct{})},
		pages:       newQueue(cfg.MaxRequests),
		probes:      newQueue(cfg.MaxRequests),
		receiving:   make(map[string]bool),
		kept:        slices.Clone(keptHeaders),
	}
}

// Receive allows the handler of a path to read request bodies. The handler must set the deadlines of the connection.
// Receive must be called before Run.
func (s *Server) Receive(path string) { s.receiving[path] = true }

// Keep allows handlers to read a header. Keep must be called before Run. An empty name is ignored.
func (s *Server) Keep(header string) {
	if header != "" {
		s.kept = append(s.kept, http.CanonicalHeaderKey(header))
	}
}

// Serving sets a function that is called once all addresses are served. The function may restrict the program so that
// it can no longer open addresses. Therefore, after this call, Run does not retry and returns errors. Serving must be
// called before Run.
func (s *Server) Serving(do func()) { s.serving = do }

// Collector returns a collector of the server's overload metric.
func (s *Server) Collector() prometheus.Collector { return s.overload }

// Run serves until the context ends. While another program uses an address, Run tries again. If it returned, this
// sidecar would exit, and the pod would not be ready.
func (s *Server) Run(ctx context.Context, handler http.Handler) error {
	logged := ""
	for {
		err := s.listenAndServe(ctx, handler)
		if ctx.Err() != nil {
			return nil
		}
		if s.served.Load() && err != nil {
			return fmt.Errorf("serve: %w", err)
		}
		if err != nil && err.Error() != logged {
			logged = err.Error()
			s.log.Error("cannot listen for HTTP requests, will retry", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(listenAgain):
		}
	}
}

// listenAndServe opens all addresses and serves on them. If it cannot open one of the addresses,
// it closes the other addresses.
func (s *Server) listenAndServe(ctx context.Context, handler http.Handler) error {
	listeners := s.inherited
	s.inherited = nil
	defer func() {
		for _, l := range listeners {
			_ = l.Close() // the server may have closed the listener
		}
	}()
	config := net.ListenConfig{Control: limitBuffers}
	for _, address := range s.cfg.ListenAddresses[len(listeners):] {
		l, err := config.Listen(ctx, "tcp", address)
		if err != nil {
			return err
		}
		listeners = append(listeners, l)
	}
	s.listening.Store(&listeners)
	return s.serve(ctx, handler, listeners)
}

func (s *Server) serve(ctx context.Context, handler http.Handler, listeners []net.Listener) error {
	g, ctx := errgroup.WithContext(ctx)
	log := slog.New(withoutHTTP2{s.log.Handler()})
	var begun atomic.Int32
	for _, l := range listeners {
		server := s.newServer(handler)
		// The toolkit adds basic auth to a server's handler when the server starts. Therefore each listener needs its
		// own server. The server calls BaseContext after basic auth was added and before it accepts the first
		// connection.
		server.BaseContext = func(net.Listener) context.Context {
			server.Handler = s.guard(server.Handler)
			if int(begun.Add(1)) == len(listeners) && s.serving != nil {
				s.serving()
				s.served.Store(true)
			}
			return context.WithoutCancel(ctx)
		}
		g.Go(func() error {
			if s.tls != nil {
				return s.serveTLS(listener{l, s.connections}, server)
			}
			return web.Serve(listener{l, s.connections}, server, &web.FlagConfig{WebConfigFile: &s.cfg.WebConfigFile}, log)
		})
		g.Go(func() error {
			<-ctx.Done()
			if s.bequeathed.Load() {
				s.answerAll(l, server)
			}
			shutdown(context.WithoutCancel(ctx), server)
			return nil
		})
	}
	if err := g.Wait(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// answerAll accepts no more connections, and waits until the clients of all accepted connections have an answer. If a
// request arrives after the call of [http.Server.Shutdown], the server closes the connection without an answer.
func (s *Server) answerAll(l net.Listener, server *http.Server) {
	_ = l.Close()
	server.SetKeepAlivesEnabled(false)
	for end := time.Now().Add(handover); s.connections.count() > 0 && time.Now().Before(end); {
		time.Sleep(handover / 200)
	}
}

func shutdown(ctx context.Context, server *http.Server) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		_ = server.Close()
	}
}
