package serve_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuledger/gpuledger/internal/serve"
)

func request(c net.Conn) bool {
	if _, err := io.WriteString(c, "GET /page HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return false
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err == nil && response.StatusCode == http.StatusOK
}

func isOpen(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	_, err := c.Read(make([]byte, 1))
	return !errors.Is(err, io.EOF)
}

func checkOpen(t *testing.T, conns []net.Conn, want ...bool) {
	t.Helper()
	for i, c := range conns {
		if got := isOpen(c); got != want[i] {
			t.Errorf("connection %d is open: %v, want %v", i, got, want[i])
		}
	}
}

var page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") })

// TestIdleConnections checks that, when a limit is reached, a new connection replaces the connection that has been idle
// longest. One address may have up to half of all connections.
func TestIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, serve.Config{MaxConnections: 8, MaxRequests: 16}, page)
		var conns []net.Conn
		open := func(from string) {
			t.Helper()
			time.Sleep(time.Second)
			conns = append(conns, n.dial(from))
			if !request(conns[len(conns)-1]) {
				t.Errorf("connection %d is not served", len(conns)-1)
			}
		}
		for range 4 {
			open("10.0.0.1")
		}
		n.checkOverload(nil, 0)
		time.Sleep(time.Second)
		if !request(conns[0]) {
			t.Error("a connection that was kept open is not served")
		}
		open("10.0.0.1")
		checkOpen(t, conns, true, false, true, true, true)
		n.checkOverload(map[string]int{"connection_closed": 1}, 1)

		for range 4 {
			open("10.0.0.2")
		}
		open("10.0.0.3")
		checkOpen(t, conns, true, false, false, true, true, true, true, true, true, true)
		n.checkOverload(map[string]int{"connection_closed": 2}, 1)

		time.Sleep(time.Hour) // in this time, all idle connections are closed
		for range 5 {
			open("10.0.0.1")
		}
		n.checkOverload(map[string]int{"connection_closed": 3}, 2)
	})
}

// TestScraperAmongMany checks that an address keeps its idle connections while other addresses have more connections.
func TestScraperAmongMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, serve.Config{MaxConnections: 8, MaxRequests: 16}, page)
		scraper := n.dial("10.0.0.9")
		if !request(scraper) {
			t.Error("scraper is not served")
		}
		for i := range 64 {
			time.Sleep(time.Second)
			if !request(n.dial(fmt.Sprint("10.0.0.", 1+i%4))) {
				t.Errorf("connection %d is not served", i)
			}
		}
		if !request(scraper) {
			t.Error("the scraper's connection was closed")
		}
		n.checkOverload(map[string]int{"connection_closed": 57}, 1)
	})
}

// TestSilentConnections checks that connections without a request are closed in the same way as idle connections.
func TestSilentConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, serve.Config{MaxConnections: 4, MaxRequests: 16}, page)
		var silent []net.Conn
		for range 4 {
			silent = append(silent, n.dial("10.0.0.1"))
			time.Sleep(time.Millisecond)
		}
		checkOpen(t, silent, false, false, true, true)
		if !request(n.dial("10.0.0.1")) || !request(n.dial("10.0.0.2")) {
			t.Error("scraper is not served")
		}
		checkOpen(t, silent, false, false, false, true)
		n.checkOverload(map[string]int{"connection_closed": 3}, 1)
	})
}

// TestBusyConnections checks that a new connection is refused if its address has reached the limit and all of the
// address's connections are busy. Other addresses must still be served.
func TestBusyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		n := newNetwork(t, serve.Config{MaxConnections: 8, MaxRequests: 16}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				<-release
			}
		}))
		for range 4 {
			c := n.client("10.0.0.1")
			go n.get(c, "/slow")
		}
		synctest.Wait()
		for range 3 {
			if status, _ := n.get(n.client("10.0.0.1"), "/page"); status != 0 {
				t.Errorf("a connection above the limit got status %d, want it refused", status)
			}
		}
		if !request(n.dial("10.0.0.2")) {
			t.Error("a connection from another address is not served")
		}
		n.checkOverload(map[string]int{"connection_refused": 3}, 1)
		close(release)
		synctest.Wait()
		if !request(n.dial("10.0.0.1")) {
			t.Error("a new connection is not served, although other connections are idle again")
		}
	})
}
