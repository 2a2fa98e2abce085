package chain_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
)

// TestPublishRedirected checks that a redirection is an error: it would send the credentials to another URL, or lose the checkpoint.
func TestPublishRedirected(t *testing.T) {
	received := 0
	mux := http.NewServeMux()
	mux.HandleFunc("POST /new", func(http.ResponseWriter, *http.Request) { received++ })
	mux.HandleFunc("GET /new", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("/moved", http.RedirectHandler("/new", http.StatusMovedPermanently))
	mux.Handle("/kept", http.RedirectHandler("/new", http.StatusPermanentRedirect))
	server := httptest.NewServer(mux)
	defer server.Close()
	for path, want := range map[string]int{"/new": 1, "/kept": 0, "/moved": 0} {
		received = 0
		if err := chain.Publish(t.Context(), server.URL+path, "", chain.Checkpoint{Cluster: "east"}); received != want || (err == nil) != (want == 1) {
			t.Errorf("%s: received %d checkpoints, error %v", path, received, err)
		}
	}
}
