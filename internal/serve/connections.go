package serve

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// connections limits the open connections of a server, and one client address to half of them. At a
// limit, a new connection replaces a connection that waits for its client. This is an idle
// connection, or a connection without a request until now. The replaced connection belongs to the
// address with the most connections, so that many connections from another address cannot displace
// a scraper. If no connection can be closed, the new connection is refused.
type connections struct {
	max      int
	overload *overload

	mu   sync.Mutex
	open map[*connection]struct{}
}

// connection is an open connection.
type connection struct {
	net.Conn
	of      *connections
	address string
	// The lock of connections guards the following fields.
	answering bool
	since     time.Time // start of the wait for the client; not used while answering
}

// listener applies the limits to accepted connections.
type listener struct {
	net.Listener
	connections *connections
}

// Accept implements [net.Listener].
func (l listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &connection{Conn: inner, of: l.connections, address: host(inner.RemoteAddr().String()), since: time.Now()}
		if l.connections.admit(c) {
			return c, nil
		}
		_ = inner.Close()
	}
}

// admit adds a connection. It reports whether this was possible within the limits.
func (cs *connections) admit(c *connection) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	of := make(map[string]int) // connections by address
	for o := range cs.open {
		of[o.address]++
	}
	if len(cs.open) >= cs.max || of[c.address] >= half(cs.max) {
		closing := cs.toClose(c.address, of)
		if closing == nil {
			cs.overload.add(connectionRefused, c.address)
			return false
		}
		cs.overload.add(connectionClosed, closing.address)
		delete(cs.open, closing)
		_ = closing.Conn.Close() // not Close, which locks
	}
	cs.open[c] = struct{}{}
	return true
}

// toClose returns the connection to close for a new connection from an address, or nil. This is the
// oldest waiting connection of the address with the most connections. If several addresses have the
// most connections, it prefers the address of the new connection.
func (cs *connections) toClose(address string, of map[string]int) *connection {
	var found *connection
	for o := range cs.open {
		switch {
		case o.answering:
		case o.address != address && of[o.address] <= of[address]:
		case found == nil, of[o.address] > of[found.address],
			of[o.address] == of[found.address] && o.since.Before(found.since):
			found = o
		}
	}
	return found
}

// note implements the ConnState hook of [http.Server].
func (cs *connections) note(conn net.Conn, state http.ConnState) {
	c, ok := underTLS(conn).(*connection)
	if !ok {
		return
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.answering, c.since = state == http.StateActive, time.Now()
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// host returns the address of host:port without its port.
func host(address string) string {
	if h, _, err := net.SplitHostPort(address); err == nil {
		return h
	}
	return address
}

// half returns the part of a limit that one client address may use.
func half(limit int) int { return (limit + 1) / 2 }
