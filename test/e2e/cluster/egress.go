//go:build e2e

package cluster

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// Egress replaces the cluster network for connections from the API server to Services. It is an HTTP proxy on a socket.
// It connects to a loopback address instead of the Service's address.
type Egress struct {
	address atomic.Pointer[string]
	server  *http.Server

	mu   sync.Mutex
	open map[net.Conn]bool // connections to the current address
}

// OpenEgress starts the proxy with its files in a folder, and returns the flag of kube-apiserver for the proxy.
func OpenEgress(ctx context.Context, dir string) (*Egress, string, error) {
	socket, config := filepath.Join(dir, "egress.socket"), filepath.Join(dir, "egress.yaml")
	text := "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n- name: cluster\n" +
		"  connection: {proxyProtocol: HTTPConnect, transport: {uds: {udsName: " + socket + "}}}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return nil, "", err
	}
	e := &Egress{open: make(map[net.Conn]bool)}
	e.Route("")
	e.server = &http.Server{Handler: e} //nolint:gosec // its only client is kube-apiserver
	go func() { _ = e.server.Serve(l) }()
	return e, "--egress-selector-config-file=" + config, nil
}

// Route connects all Services to an address, and closes the connections to the previous address. An empty address
// refuses connections.
func (e *Egress) Route(address string) {
	e.address.Store(&address)
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.open {
		_ = c.Close()
	}
	clear(e.open)
}

// Address returns the current address.
func (e *Egress) Address() string { return *e.address.Load() }

// ServeHTTP implements [http.Handler] for the method CONNECT.
func (e *Egress) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	there, err := new(net.Dialer).DialContext(r.Context(), "tcp", *e.address.Load())
	if r.Method != http.MethodConnect || err != nil {
		http.Error(w, "Service not found", http.StatusBadGateway)
		return
	}
	defer there.Close()
	e.mu.Lock()
	e.open[there] = true
	e.mu.Unlock()
	w.WriteHeader(http.StatusOK)
	here, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer here.Close()
	go func() { _, _ = io.Copy(there, buffered) }()
	_, _ = io.Copy(here, there) // ends when either connection ends
}
