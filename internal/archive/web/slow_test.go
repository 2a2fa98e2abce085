//go:build realtime

package web_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/ask"
	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/web"
	"github.com/gpuledger/gpuledger/internal/serve"
)

// TestSlowAnswer checks that a question is answered even if the answer takes longer than the timeouts of the server,
// ten and fifteen seconds. The question must be cancelled when its client disconnects.
func TestSlowAnswer(t *testing.T) {
	path := archive(t, nil)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	opened, left := make(chan bool, 2), make(chan error, 2)
	library := &ask.Library{Label: "--sqlite", Now: func() time.Time { return now }, Open: func(ctx context.Context) (books.Source, error) {
		opened <- true
		select {
		case <-ctx.Done():
			left <- ctx.Err()
			return nil, ctx.Err()
		case <-time.After(17 * time.Second):
			return books.OpenSQLite(ctx, path)
		}
	}}
	s, err := web.New(web.Config{Pages: true}, []*ask.Library{library}, func() map[string]string { return nil }, slog.New(slog.DiscardHandler))
	check(t, err)
	mux := http.NewServeMux()
	s.Register(mux)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	address := l.Addr().String()
	check(t, l.Close())
	server := serve.New(serve.Config{ListenAddresses: []string{address}, MaxConnections: 10, MaxRequests: 4}, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- server.Run(ctx, mux) }()
	defer func() { stop(); check(t, <-ended) }()
	get := func(ctx context.Context, page string) (status int, err error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+page, http.NoBody)
		check(t, err)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	status := 0
	for began := time.Now(); status == 0 && time.Since(began) < time.Minute; {
		status, err = get(t.Context(), "/style.css")
	}
	check(t, err)
	status, err = get(t.Context(), "/statement/2026-10?compare=true")
	check(t, err)
	if <-opened; status != http.StatusOK {
		t.Errorf("a slow answer: status %d", status)
	}
	client, leave := context.WithCancel(t.Context())
	go func() { <-opened; leave() }()
	if _, err := get(client, "/idle/2026-10"); !errors.Is(err, context.Canceled) {
		t.Errorf("the client leaves: %v", err)
	}
	select {
	case err := <-left:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the question ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the question did not end")
	}
}
