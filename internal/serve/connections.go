package serve

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// connections limits the number of a server's open connections. Each client address may have at most half of this
// number. If a limit is reached, a new connection replaces a connection that waits for its client. A connection
// waits for its client if it is idle or if the client has not sent a request yet. The replaced connection belongs
// to the address with the most connections. Therefore many connections from one address cannot displace a scraper
// at another address. If no connection waits for its client, the new connection is refused.
type connections struct {
	max      int
	overload *overload

	mu   sync.Mutex
	open map[*connection]struct{}
}

type connection struct {
	net.Conn
	of      *connections
	address string
	// The mutex in connections guards the following fields.
	answering bool
	since     time.Time // time at which the wait for the client began; not used while answering is set
}

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

// admit adds a connection, unless the limits forbid it. It reports whether it added the connection. If a limit is
// reached, admit first closes another connection.
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
		_ = closing.Conn.Close() // not closing.Close, which would lock the mutex again
	}
	cs.open[c] = struct{}{}
	return true
}

func (cs *connections) count() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.open)
}

// toClose returns the connection that a new connection from the given address replaces, or nil.
// Among the connections of the address with the most connections, it returns the connection that
// has waited longest. It returns a connection from another address only if the other address has
// more connections than the given address.
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

// note is the hook ConnState of [http.Server].
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

func host(address string) string {
	if h, _, err := net.SplitHostPort(address); err == nil {
		return h
	}
	return address
}

// half returns half of a limit, rounded up. One client address may use only this half.
func half(limit int) int { return (limit + 1) / 2 }
