package serve

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// These are the limits of one connection, in time and memory. The number of connections is also
// limited (see [connections]), so the total memory of all connections is also limited.
const (
	// readHeaderTime limits the TLS handshake and the header. readTime limits a request. Few handlers
	// read a body, and these handlers set another limit.
	readHeaderTime = 5 * time.Second
	readTime       = 10 * time.Second
	// writeTime limits the time for a response: queueTime, plus ten seconds to read it, which is
	// the default scrape timeout of Prometheus.
	writeTime = queueTime + 10*time.Second
	// idleTime is longer than the usual scrape intervals, so that a scraper keeps its
	// connection.
	idleTime = 150 * time.Second
	// maxHeaderBytes is the limit to which net/http adds 4 KiB. A header of 8 KiB with
	// thousands of short lines takes 300 KiB when it is parsed.
	maxHeaderBytes = 4 << 10
	// sendBuffer and receiveBuffer limit the kernel's memory of a connection, which
	// cgroup v2 charges to the container. The kernel doubles both.
	sendBuffer    = 64 << 10
	receiveBuffer = 16 << 10
)

// newServer returns a server for one listener.
//
// It supports only HTTP/1.1. HTTP/2 is not offered. An HTTP/2 client can hold eight or more
// responses per connection without reading them, before it is authenticated. A second set of limits
// would be needed for streams, and a scraper does not benefit from streams.
func (s *Server) newServer(handler http.Handler) *http.Server {
	server := &http.Server{
		Handler:           handler,
		Protocols:         new(http.Protocols),
		ReadHeaderTimeout: readHeaderTime,
		ReadTimeout:       readTime,
		WriteTimeout:      writeTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnState:         s.connections.note,
		// Each failed handshake is an error, so any client can cause a log line.
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	server.Protocols.SetHTTP1(true)
	return server
}

// withoutHTTP2 drops the attribute http2 of the toolkit's log: that setting of the web
// configuration has no effect here.
type withoutHTTP2 struct{ slog.Handler }

// Handle implements [slog.Handler].
func (h withoutHTTP2) Handle(ctx context.Context, r slog.Record) error {
	kept := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "http2" {
			kept.AddAttrs(a)
		}
		return true
	})
	return h.Handler.Handle(ctx, kept)
}

// limitBuffers sets the buffer sizes of a listening socket, which accepted sockets inherit.
func limitBuffers(_, _ string, socket syscall.RawConn) error {
	var err error
	if controlErr := socket.Control(func(fd uintptr) {
		if err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer); err == nil {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
		}
	}); controlErr != nil {
		return controlErr
	}
	return err
}

// underTLS returns the connection that carries TLS, or the connection itself.
func underTLS(c net.Conn) net.Conn {
	if t, ok := c.(*tls.Conn); ok {
		return t.NetConn()
	}
	return c
}
