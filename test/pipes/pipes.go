// Package pipes connects clients and servers in memory, so that both ends of a connection are in one bubble of
// testing/synctest.
package pipes

import (
	"context"
	"net"
)

// Listener is a listener that uses no network. Create it with make.
type Listener chan net.Conn

// Accept implements [net.Listener].
func (l Listener) Accept() (net.Conn, error) {
	conn, open := <-l
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

// Close implements [net.Listener].
func (l Listener) Close() error { close(l); return nil }

// Addr implements [net.Listener].
func (l Listener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// Dial connects to the listener. It ignores the address.
func (l Listener) Dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	l <- server
	return client, nil
}
