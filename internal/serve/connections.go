package serve

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// connections limits the open connections of a server, and those of one client address to
// half of them. If either limit is reached, a new connection takes the place of the one
// that has waited longest for its client: an idle one, or one that has sent no request yet.
// If all are being answered, the new one is refused.
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
	// The lock of connections guards these.
	answering bool
	since     time.Time // since when it has waited for its client, unless answering
}

// listener applies the limits to what it accepts.
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

// admit adds a connection, and reports whether there is room for it.
func (cs *connections) admit(c *connection) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	oldest, oldestOwn, own := (*connection)(nil), (*connection)(nil), 0
	for o := range cs.open {
		if o.olderThan(oldest) {
			oldest = o
		}
		if o.address == c.address {
			own++
			if o.olderThan(oldestOwn) {
				oldestOwn = o
			}
		}
	}
	if own >= half(cs.max) {
		oldest = oldestOwn
	} else if len(cs.open) < cs.max {
		cs.open[c] = struct{}{}
		return true
	}
	if oldest == nil {
		cs.overload.add(connectionRefused, c.address)
		return false
	}
	cs.overload.add(connectionClosed, oldest.address)
	delete(cs.open, oldest)
	_ = oldest.Conn.Close() // not Close, which locks
	cs.open[c] = struct{}{}
	return true
}

// olderThan reports whether a connection waits for its client, and for longer than another
// one. Nil is the youngest.
func (c *connection) olderThan(o *connection) bool {
	return !c.answering && (o == nil || c.since.Before(o.since))
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

// half is the part of a limit that one client address may use.
func half(limit int) int { return (limit + 1) / 2 }
