package status_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gpuledger/gpuledger/internal/status"
)

// TestGet checks that Get rejects a response that is not a page of an exporter, and that the error contains advice.
func TestGet(t *testing.T) {
	tests := []struct {
		name   string
		server func(http.Handler) *httptest.Server
		status int
		body   string
		want   string
	}{
		{"another program's page", httptest.NewServer, http.StatusOK, "<html>", "is not the page of an exporter: invalid character"},
		{"another program's JSON", httptest.NewServer, http.StatusOK, `{"status":"ok"}`, "is not the page of an exporter: the response has no version"},
		{"another version", httptest.NewServer, http.StatusOK, `{"version":2}`, "use the program from the exporter's image"},
		{"too long", httptest.NewServer, http.StatusOK, "[" + strings.Repeat(" ", 17<<20) + "]", "is not the page of an exporter"},
		{"a long complaint", httptest.NewServer, http.StatusInternalServerError, "x" + strings.Repeat("é", 300), "500 Internal Server Error: xéé"},
		{"no password", httptest.NewServer, http.StatusUnauthorized, "", "authentication failed: set --http.config.file"},
		{"a certificate of an unknown authority", httptest.NewTLSServer, http.StatusOK, "", "set --http.config.file to a file with the CA certificate"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := tt.server(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body) // the client may close the connection early
			}))
			defer server.Close()
			_, err := status.Get(t.Context(), http.DefaultClient, server.URL)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !utf8.ValidString(err.Error()) {
				t.Errorf("error %q, want an error with %q", err, tt.want)
			}
		})
	}
}

// TestGetSilence checks that a request is cancelled if its response is not complete in time.
func TestGetSilence(t *testing.T) {
	for name, begins := range map[string]bool{"not responding": false, "half a response": true} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if begins {
					_, _ = io.WriteString(w, "{")
					w.(http.Flusher).Flush()
				}
				<-r.Context().Done()
			}))
			defer server.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, err := status.Get(ctx, http.DefaultClient, server.URL)
			if err == nil || !strings.Contains(err.Error(), "does not respond in time") {
				t.Errorf("error %q, want a timeout", err)
			}
		})
	}
}
