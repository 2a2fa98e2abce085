//go:build realtime

package web_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/web"
)

// TestSlowAnswer checks an answer that takes longer than the server's timeouts of ten and fifteen seconds. The client
// must get the answer. If the client disconnects, the question must be cancelled.
func TestSlowAnswer(t *testing.T) {
	path := archive(t, nil)
	opened, left := make(chan bool, 2), make(chan error, 2)
	address := served(t, pagesOf(t, web.Config{Pages: true}, func(ctx context.Context) (books.Source, error) {
		opened <- true
		select {
		case <-ctx.Done():
			left <- ctx.Err()
			return nil, ctx.Err()
		case <-time.After(17 * time.Second):
			return books.OpenSQLite(ctx, path)
		}
	}))
	get := func(ctx context.Context, page string) (status int, err error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+page, http.NoBody)
		check(t, err)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	status, err := get(t.Context(), "/statement/2026-10?compare=true")
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
