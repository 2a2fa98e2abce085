package serve_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/internal/serve"
)

type network struct {
	t        *testing.T
	server   *serve.Server
	incoming chan net.Conn
	log      bytes.Buffer
	registry *prometheus.Registry
}

func newNetwork(t *testing.T, cfg serve.Config, handler http.Handler) *network {
	t.Helper()
	n := &network{t: t, incoming: make(chan net.Conn), registry: prometheus.NewRegistry()}
	n.server = serve.New(cfg, slog.New(slog.NewTextHandler(&n.log, nil)))
	n.registry.MustRegister(n.server.Collector())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.server.Serve(ctx, handler, n) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return n
}

// Accept implements [net.Listener].
func (n *network) Accept() (net.Conn, error) {
	c, ok := <-n.incoming
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

// Close implements [net.Listener].
func (n *network) Close() error {
	close(n.incoming)
	return nil
}

// Addr implements [net.Listener].
func (n *network) Addr() net.Addr { return memoryAddress("192.0.2.1:9840") }

type memoryAddress string

func (memoryAddress) Network() string  { return "tcp" }
func (a memoryAddress) String() string { return string(a) }

type memoryConn struct {
	net.Conn
	remote memoryAddress
}

func (c memoryConn) RemoteAddr() net.Addr { return c.remote }

func (n *network) dial(from string) net.Conn {
	client, server := net.Pipe()
	n.t.Cleanup(func() { _ = client.Close() })
	n.incoming <- memoryConn{server, memoryAddress(from + ":1024")}
	return client
}

func (n *network) client(from string) *http.Client {
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return n.dial(from), nil }}
	n.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// get requests a page. It returns the status 0 if there is no response.
func (n *network) get(client *http.Client, path string) (status int, took time.Duration) {
	began := time.Now()
	response, err := client.Get("http://gpu-node" + path)
	if err != nil {
		return 0, time.Since(began)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		n.t.Error(err)
	}
	return response.StatusCode, time.Since(began)
}

func (n *network) checkOverload(want map[string]int, lines int) {
	n.t.Helper()
	families, err := n.registry.Gather()
	if err != nil {
		n.t.Fatal(err)
	}
	for _, m := range families[0].Metric {
		if action := actionOf(m); int(m.Counter.GetValue()) != want[action] {
			n.t.Errorf("%s: %v, want %d", action, m.Counter.GetValue(), want[action])
		}
	}
	if got := strings.Count(n.log.String(), "too many clients"); got != lines {
		n.t.Errorf("%d log lines about too many clients, want %d:\n%s", got, lines, &n.log)
	}
}

func actionOf(m *dto.Metric) string {
	for _, l := range m.Label {
		if l.GetName() == "action" {
			return l.GetValue()
		}
	}
	return fmt.Sprint(m.Label)
}
