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

// These constants limit the time and memory of one connection. The number of connections is also
// limited (see [connections]). Therefore the total memory of all connections is limited.
const (
	// readHeaderTime limits the time for the TLS handshake and for reading the header. readTime limits the time for
	// reading a whole request. The few handlers that read a request body set another limit.
	readHeaderTime = 5 * time.Second
	readTime       = 10 * time.Second
	// writeTime limits the time for a response. It is the sum of queueTime and ten seconds for the
	// client to read the response. Ten seconds is the default scrape timeout of Prometheus.
	writeTime = queueTime + 10*time.Second
	// idleTime is the time after which an idle connection is closed. It is longer than usual scrape intervals, so that
	// a scraper can keep its connection.
	idleTime = 150 * time.Second
	// maxHeaderBytes limits the header; net/http adds 4 KiB to this limit. A parsed header of 8 KiB
	// with thousands of short lines takes 300 KiB.
	maxHeaderBytes = 4 << 10
	// sendBuffer and receiveBuffer limit the kernel memory of a connection. cgroup v2 charges this
	// memory to the container. The kernel doubles both values.
	sendBuffer    = 64 << 10
	receiveBuffer = 16 << 10
)

// newServer returns a server for one listener.
//
// The server supports only HTTP/1.1. Even without authentication, an HTTP/2 client could request eight or more
// responses over one connection without reading them. The server would have to hold all these responses in memory.
// HTTP/2 would need additional limits for streams, and a scraper does not benefit from streams.
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
		// Any client can cause errors in this log, because each failed handshake is an error. Therefore
		// the errors are logged at level debug.
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	server.Protocols.SetHTTP1(true)
	return server
}

// withoutHTTP2 removes the attribute http2 from the toolkit's log lines, because this server
// ignores the setting http2 in the web configuration.
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

// limitBuffers sets the buffer sizes of a listening socket. Accepted sockets inherit these sizes.
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

func underTLS(c net.Conn) net.Conn {
	if t, ok := c.(*tls.Conn); ok {
		return t.NetConn()
	}
	return c
}
