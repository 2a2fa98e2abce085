package serve_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/serve"
)

func TestScrapersBehindOneAddress(t *testing.T) {
	for _, scrapers := range []int{16, 64, 200} {
		t.Run(fmt.Sprint(scrapers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var answered, most atomic.Int64
				n := newNetwork(t, serve.Config{MaxConnections: 512, MaxRequests: 16}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					if now := answered.Add(1); now > most.Load() {
						most.Store(now)
					}
					time.Sleep(3 * time.Millisecond)
					answered.Add(-1)
				}))
				var wg sync.WaitGroup
				for range scrapers {
					client := n.client("10.0.0.1")
					wg.Go(func() {
						for range 10 {
							if status, took := n.get(client, "/metrics"); status != http.StatusOK || took > time.Second {
								t.Errorf("status %d after %v, want 200 within 1s", status, took)
							}
							time.Sleep(15 * time.Second)
						}
					})
				}
				wg.Wait()
				n.checkOverload(nil, 0)
				if most.Load() != 8 {
					t.Errorf("%d concurrent requests, want 8", most.Load())
				}
			})
		})
	}
}

// TestMaxRequests checks that requests above a limit are refused after five seconds, and that probes are served
// immediately.
func TestMaxRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		n := newNetwork(t, serve.Config{MaxConnections: 64, MaxRequests: 4}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				<-release
			}
		}))
		check := func(from, path string, wantStatus int, wantTook time.Duration) {
			t.Helper()
			if status, took := n.get(n.client(from), path); status != wantStatus || took != wantTook {
				t.Errorf("%s from %s: status %d after %v, want %d after %v", path, from, status, took, wantStatus, wantTook)
			}
		}
		hold := func(from string) {
			client := n.client(from)
			go n.get(client, "/slow")
			synctest.Wait()
		}
		hold("10.0.0.1")
		hold("10.0.0.1")
		check("10.0.0.1", "/page", http.StatusServiceUnavailable, 5*time.Second)
		check("10.0.0.2", "/page", http.StatusOK, 0)
		hold("10.0.0.2")
		hold("10.0.0.3")
		check("10.0.0.4", "/page", http.StatusServiceUnavailable, 5*time.Second)
		check("10.0.0.1", "/-/healthy", http.StatusOK, 0)
		check("10.0.0.2", "/page", http.StatusServiceUnavailable, 5*time.Second)
		n.checkOverload(map[string]int{"request_refused": 3}, 1)

		release <- struct{}{} // ends the first request from 10.0.0.1
		check("10.0.0.2", "/page", http.StatusOK, 0)
		hold("10.0.0.1")

		var waiting sync.WaitGroup
		waiting.Go(func() { check("10.0.0.1", "/page", http.StatusOK, 2*time.Second) })
		waiting.Go(func() { check("10.0.0.4", "/page", http.StatusOK, 2*time.Second) })
		time.Sleep(2 * time.Second)
		close(release)
		waiting.Wait()
	})
}

func TestRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		n := newNetwork(t, serve.Config{MaxConnections: 8, MaxRequests: 1}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
		client := n.client("10.0.0.1")
		go n.get(client, "/page")
		synctest.Wait()
		response, err := n.client("10.0.0.1").Get("http://gpu-node/page")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text := make([]byte, 200)
		size, _ := response.Body.Read(text)
		if response.Header.Get("Retry-After") != "5" || !strings.Contains(string(text[:size]), "--web.max-requests=1,") {
			t.Errorf("Retry-After %q, want 5; body %s", response.Header.Get("Retry-After"), text[:size])
		}
		close(release)
	})
}

// TestHungUp checks that a waiting request is not served if the client has closed the connection.
func TestHungUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var answered atomic.Int64
		n := newNetwork(t, serve.Config{MaxConnections: 8, MaxRequests: 1}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			answered.Add(1)
			<-release
		}))
		client := n.client("10.0.0.1")
		go n.get(client, "/page")
		synctest.Wait()
		hasty := n.client("10.0.0.1")
		hasty.Timeout = time.Second
		if status, took := n.get(hasty, "/page"); status != 0 || took != time.Second {
			t.Errorf("status %d after %v, want no response after 1s", status, took)
		}
		synctest.Wait() // wait until the server has detected the closed connection
		close(release)
		synctest.Wait()
		if answered.Load() != 1 {
			t.Errorf("%d requests were served, want 1", answered.Load())
		}
	})
}

func TestKeptHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got http.Header
		n := newNetwork(t, serve.Config{MaxConnections: 8, MaxRequests: 1}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
		request, err := http.NewRequest(http.MethodGet, "http://gpu-node/page", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{"Accept": {"a", "b"}, "Accept-Encoding": {"gzip"}, "Authorization": {"Basic eDp5"}, "Cookie": {"c"}, "X-Other": {"d"}}
		response, err := n.client("10.0.0.1").Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		want := http.Header{"Accept": {"a", "b"}, "Accept-Encoding": {"gzip"}, "Authorization": {"Basic eDp5"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
	})
}

// TestBody checks that the server does not wait for the rest of a request's body if the handler
// does not read the body.
func TestBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, serve.Config{MaxConnections: 8, MaxRequests: 1}, page)
		c := n.dial("10.0.0.1")
		began := time.Now()
		if _, err := io.WriteString(c, "GET /page HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c)
		if !strings.HasPrefix(string(answer), "HTTP/1.1 200 OK") || err != nil {
			t.Errorf("response is %q, error %v, want status 200", answer, err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("connection was closed after %v, want 1s at most", took)
		}
	})
}

// TestReceive checks that the server passes a request body to a handler only if Receive was called for the
// handler's path.
func TestReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got string
		n := newNetwork(t, serve.Config{MaxConnections: 8, MaxRequests: 1}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			text, err := io.ReadAll(r.Body)
			got = fmt.Sprint(r.Header.Get("Content-Encoding"), " ", string(text), " ", err != nil)
		}))
		n.server.Receive("/events")
		for path, want := range map[string]string{"/events": "gzip text false", "/other": "gzip  true"} {
			c := n.dial("10.0.0.1")
			if _, err := io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			go func() { _, _ = io.WriteString(c, "text") }() // the write fails if the server does not read the body
			if _, err := io.ReadAll(c); err != nil {
				t.Error(err)
			}
			if got != want {
				t.Errorf("%s: the handler got %q, want %q", path, got, want)
			}
			_ = c.Close()
		}
	})
}
