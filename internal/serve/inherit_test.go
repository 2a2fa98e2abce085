package serve_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/serve"
)

const sockets = "GPULEDGER_SOCKETS"

// TestBequeath connects to a server, and sends the request only after the server has begun to end. This client must get
// an answer. A client that connects later must get its answer from the next server.
func TestBequeath(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	_ = listener.Close()
	address := listener.Addr().String()

	first, end := inherit(t, address, sockets+"="+strconv.Itoa(fd), "first")
	early, idle := dial(t, address), dial(t, address)
	answer(t, idle, "first") // the server accepts connections in order, so it has also accepted early
	environment, err := first.Bequeath()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); end() }()
	if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("the idle connection is not closed: %v", err)
	}
	late := dial(t, address)
	answer(t, early, "first")
	<-ended

	_, end = inherit(t, address, environment[0], "second")
	defer end()
	answer(t, late, "second")
}

func inherit(t *testing.T, address, variable, text string) (s *serve.Server, end func()) {
	t.Helper()
	name, value, _ := strings.Cut(variable, "=")
	t.Setenv(name, value)
	s = serve.New(serve.Config{ListenAddresses: []string{address}, MaxConnections: 8, MaxRequests: 8}, slog.New(slog.DiscardHandler))
	if !s.Inherit() {
		t.Fatalf("%s=%s was not inherited", name, value)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- s.Run(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
	}()
	return s, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

func answer(t *testing.T, c net.Conn, want string) {
	t.Helper()
	_, _ = fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("no answer from the %s server: %v", want, err)
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	if err != nil || string(text) != want {
		t.Errorf("answer %q, error %v; want %q", text, err, want)
	}
}
