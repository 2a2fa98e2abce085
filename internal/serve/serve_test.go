package serve_test

import (
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/serve"
)

func TestProbes(t *testing.T) {
	missing := "nothing was read yet"
	ready := serve.Ready(func() string { return missing })
	ask := func(h http.HandlerFunc) (int, string) {
		w := httptest.NewRecorder()
		h(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		return w.Code, w.Body.String()
	}
	if code, text := ask(ready); code != http.StatusServiceUnavailable || text != "not ready: nothing was read yet\n" {
		t.Errorf("not ready: %d %q", code, text)
	}
	missing = ""
	if code, text := ask(ready); code != http.StatusOK || text != "ready\n" {
		t.Errorf("ready: %d %q", code, text)
	}
	if code, text := ask(serve.Healthy); code != http.StatusOK || text != "healthy\n" {
		t.Errorf("healthy: %d %q", code, text)
	}
}

func TestAddresses(t *testing.T) {
	tests := []struct {
		args []string
		want []string // nil if the flags are wrong
	}{
		{nil, []string{":9840"}},
		{[]string{"--web.listen-address=127.0.0.1:1"}, []string{"127.0.0.1:1"}},
		{[]string{"--web.listen-address=127.0.0.1:1", "--web.listen-address=[::1]:2"}, []string{"127.0.0.1:1", "[::1]:2"}},
		{[]string{"--web.listen-address=localhost"}, nil},
		{[]string{"--web.listen-address=:no-such-service"}, nil},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			var c serve.Config
			fs := flag.NewFlagSet("test", flag.ContinueOnError)
			fs.SetOutput(io.Discard)
			c.Register(fs)
			err := fs.Parse(tt.args)
			if (err == nil) != (tt.want != nil) || err == nil && !slices.Equal(c.ListenAddresses, tt.want) {
				t.Errorf("addresses %q, error %v", c.ListenAddresses, err)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	c := serve.Config{WebConfigFile: "/nonexistent/web.yml"}
	if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), "--web.config.file=/nonexistent/web.yml: ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error is %v", err)
	}
}
