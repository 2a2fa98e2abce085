package outbox_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/reconciler/outbox"
	"github.com/gpuledger/gpuledger/test/certificate"
)

// TestToken checks that the outbox sends the token only over verified TLS. The token's file and the CA bundle may
// appear late. The outbox must not follow redirects.
func TestToken(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("redirected with the authorization %q", r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	got := make(chan string, 10)
	redirects := 1
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if redirects--; redirects >= 0 {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			return
		}
		got <- r.Header.Get("Authorization")
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()

	dir := t.TempDir()
	opts := outbox.Options{URL: server.URL, Cluster: "east", TokenFile: filepath.Join(dir, "token"), CAFile: filepath.Join(dir, "ca.pem")}
	failed := make(chan struct{}, 1)
	o := outbox.New(opts, slog.New(slog.NewTextHandler(notify(failed), nil)))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- o.Run(ctx) }()
	send(o, strings.Repeat("1", 1<<20)) // fills a batch, so that the outbox sends it at once
	await(t, failed, "a failure without the files")
	write(t, opts.TokenFile, "secret\n")
	write(t, opts.CAFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	if token := await(t, got, "the event"); token != "Bearer secret" {
		t.Errorf("authorization is %q", token)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestClientCertificate(t *testing.T) {
	dir := t.TempDir()
	certificate.Write(t, dir, "reconciler")
	got := make(chan []string, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got <- r.TLS.PeerCertificates[0].DNSNames
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13}
	server.StartTLS()
	defer server.Close()
	authority := filepath.Join(dir, "ca.pem")
	write(t, authority, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	o := outbox.New(outbox.Options{
		URL: server.URL, Cluster: "east", CAFile: authority, CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"),
	}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- o.Run(ctx) }()
	send(o, strings.Repeat("1", 1<<20)) // fills a batch, so that the outbox sends it at once
	if names := await(t, got, "the event"); len(names) != 1 || names[0] != "reconciler" {
		t.Errorf("the certificate has the names %q", names)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestOpenToken checks that the outbox does not send an invalid token, or a token in a file that other users may read.
// The log must contain the reason, but not the token.
func TestOpenToken(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("sent with the authorization %q", r.Header.Get("Authorization"))
	}))
	defer server.Close()
	tests := []struct {
		text string
		mode os.FileMode
		want string
	}{
		{"hunter2", 0o644, "0644"},
		{"hunter2", 0o666, "0666"},
		{"", 0o600, "one line"},
		{"hunter2\nhunter2", 0o600, "one line"},
	}
	for _, tt := range tests {
		file := filepath.Join(t.TempDir(), "token")
		write(t, file, tt.text)
		if err := os.Chmod(file, tt.mode); err != nil {
			t.Fatal(err)
		}
		logged := make(lines, 10)
		o := outbox.New(outbox.Options{URL: server.URL, Cluster: "east", TokenFile: file}, slog.New(slog.NewTextHandler(logged, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- o.Run(ctx) }()
		send(o, strings.Repeat("1", 1<<20)) // fills a batch, so that the outbox sends it at once
		if line := await(t, logged, "a failure"); !strings.Contains(line, tt.want) || !strings.Contains(line, file) || strings.Contains(line, "hunter2") {
			t.Errorf("mode %o: %s", tt.mode, line)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

type lines chan string

func (l lines) Write(text []byte) (int, error) {
	select {
	case l <- string(text):
	default:
	}
	return len(text), nil
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

type notify chan struct{}

func (n notify) Write(text []byte) (int, error) {
	select {
	case n <- struct{}{}:
	default:
	}
	return len(text), nil
}

func await[T any](t *testing.T, ch <-chan T, what string) (value T) {
	t.Helper()
	select {
	case value = <-ch:
	case <-time.After(time.Minute):
		t.Fatalf("%s is missing after a minute", what)
	}
	return value
}
