package serve

import (
	"bytes"
	"crypto/tls"
	"log"
	"net"
	"net/http"
)

// TLS configures the certificate of a server that does not use the web configuration.
type TLS struct {
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Rejected is called for each client that rejects the certificate.
	Rejected func()
}

// Beside returns a second server for another address, with TLS 1.3 and without the web configuration. The second server
// has the same limits as s, but counts its connections and requests separately. The metric of s also counts the
// overload of the second server.
func (s *Server) Beside(address string, t TLS) *Server {
	cfg := s.cfg
	cfg.ListenAddresses, cfg.WebConfigFile = []string{address}, ""
	other := New(cfg, s.log)
	other.tls, other.overload, other.connections.overload = &t, s.overload, s.overload
	return other
}

func (s *Server) serveTLS(l net.Listener, server *http.Server) error {
	server.ErrorLog = log.New(handshakes{s.tls.Rejected}, "", 0)
	s.log.Info("serving with TLS", "address", l.Addr().String())
	return server.Serve(tls.NewListener(l, &tls.Config{
		GetCertificate: s.tls.Certificate, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
	}))
}

// handshakes receives the error log of a server. It discards the log, because any client can cause log lines. A client
// that rejects the certificate sends a TLS alert, which the server logs. For each such log line, Write calls rejected.
type handshakes struct{ rejected func() }

// Write implements [io.Writer].
func (h handshakes) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("TLS handshake error")) && bytes.Contains(line, []byte("remote error: tls: ")) {
		h.rejected()
	}
	return len(line), nil
}
