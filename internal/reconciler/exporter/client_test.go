package exporter_test

import (
	"compress/gzip"
	"encoding/pem"
	"errors"
	"flag"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/reconciler/exporter"
)

const page = `{"version":1,"time":"2026-03-01T12:00:00Z","driver_up":true,"gpus":[{"uuid":"GPU-1","pci_bus_id":"1","present":true}]}`

func options(t *testing.T, args ...string) exporter.Options {
	t.Helper()
	var o exporter.Options
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	o.Register(fs)
	if err := errors.Join(fs.Parse(args), o.Validate()); err != nil {
		t.Fatal(err)
	}
	return o
}

func read(t *testing.T, server *httptest.Server, args ...string) error {
	t.Helper()
	c, err := exporter.NewClient(options(t, args...))
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Read(t.Context(), exporter.Target{Node: "a", Address: server.Listener.Addr().String()})
	if err == nil && (len(p.GPUs) != 1 || p.GPUs[0].UUID != "GPU-1") {
		t.Errorf("page: %+v", p)
	}
	return err
}

func TestRead(t *testing.T) {
	answer := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	tests := []struct {
		name    string
		handler http.HandlerFunc
		want    error
	}{
		{"a page", answer(page), nil},
		{"a compressed page that was not requested", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write([]byte(page))
			_ = z.Close()
		}, exporter.ErrGarbage},
		{"garbage", answer("hello"), exporter.ErrGarbage},
		{"nothing", answer(""), exporter.ErrGarbage},
		{"not ready", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, exporter.ErrStatus},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/inventory" {
				http.Redirect(w, r, "/other", http.StatusFound)
				return
			}
			_, _ = w.Write([]byte(page))
		}, exporter.ErrStatus},
		{"100 MB", func(w http.ResponseWriter, _ *http.Request) { write100MB(w) }, exporter.ErrGarbage},
		{"silence", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, exporter.ErrUnreachable},
		{"half a page and no more data", func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(page[:40]))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, exporter.ErrUnreachable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.handler)
			defer server.Close()
			timeout := "--exporter.timeout=30s"
			if errors.Is(tt.want, exporter.ErrUnreachable) {
				timeout = "--exporter.timeout=200ms"
			}
			if err := read(t, server, timeout); !errors.Is(err, tt.want) {
				t.Errorf("error is %v, want %v", err, tt.want)
			}
		})
	}
}

func write100MB(w io.Writer) {
	_, _ = io.WriteString(w, `{"version":1,"driver_up":true,"node":{"node":"`)
	chunk := []byte(strings.Repeat("a", 1<<20))
	for range 100 {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

func TestNobodyThere(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	if err := read(t, server); !errors.Is(err, exporter.ErrUnreachable) {
		t.Errorf("error is %v", err)
	}
}

// TestTLS checks that the client verifies the authority and the name in the server's certificate. The client must send
// the password to no other server, and must read the password file for each request.
func TestTLS(t *testing.T) {
	var passwords []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		passwords = append(passwords, password)
		_, _ = w.Write([]byte(page))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	dir := t.TempDir()
	ca, secret := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "password")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := errors.Join(os.WriteFile(ca, cert, 0o600), os.WriteFile(secret, []byte("open sesame\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	auth := []string{"--exporter.tls", "--exporter.basic-auth.username=reconciler", "--exporter.basic-auth.password-file=" + secret}

	if err := read(t, server, append(auth, "--exporter.tls.server-name=example.com")...); !errors.Is(err, exporter.ErrUnreachable) {
		t.Errorf("unknown authority: error is %v", err)
	}
	if err := read(t, server, append(auth, "--exporter.tls.server-name=other.example.org", "--exporter.tls.ca-file="+ca)...); !errors.Is(err, exporter.ErrUnreachable) {
		t.Errorf("wrong name: error is %v", err)
	}
	if len(passwords) > 0 {
		t.Errorf("passwords were sent: %q", passwords)
	}
	if err := read(t, server, append(auth, "--exporter.tls.server-name=example.com", "--exporter.tls.ca-file="+ca)...); err != nil {
		t.Error(err)
	}
	if len(passwords) != 1 || passwords[0] != "open sesame" {
		t.Errorf("passwords: %q", passwords)
	}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string // empty if valid
	}{
		{"defaults", nil, ""},
		{"TLS without a name", []string{"--exporter.tls"}, "server-name"},
		{"a password without TLS", []string{"--exporter.basic-auth.username=u", "--exporter.basic-auth.password-file=f"}, "never sent unencrypted"},
		{"a user without a password", []string{"--exporter.tls", "--exporter.tls.server-name=n", "--exporter.basic-auth.username=u"}, "must be set together"},
		{"a certificate without a key", []string{"--exporter.tls", "--exporter.tls.server-name=n", "--exporter.tls.cert-file=f"}, "must be set together"},
		{"files without TLS", []string{"--exporter.tls.ca-file=f"}, "requires --exporter.tls"},
		{"no DaemonSets", []string{"--exporter.daemonsets="}, "is empty"},
		{"no namespace", []string{"--exporter.daemonsets=gpuledger"}, "not namespace/name"},
		{"no time", []string{"--exporter.timeout=1ms"}, "at least"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var o exporter.Options
			fs := flag.NewFlagSet("test", flag.ContinueOnError)
			fs.SetOutput(io.Discard)
			o.Register(fs)
			err := fs.Parse(tt.args)
			if err == nil {
				err = o.Validate()
			}
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
		})
	}
}
