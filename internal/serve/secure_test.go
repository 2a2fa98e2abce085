package serve_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gpuledger/gpuledger/internal/serve"
	"github.com/gpuledger/gpuledger/test/certificate"
)

// TestNoHTTP2 checks that the server supports only HTTP/1.1. It must negotiate HTTP/1.1 with a client that offers
// HTTP/2, even if the web configuration enables HTTP/2. It must respond in HTTP/1.1 to a client that sends HTTP/2
// without negotiation.
func TestNoHTTP2(t *testing.T) {
	file := webConfig(t, "http_server_config: {http2: true}\n")
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, serve.Config{WebConfigFile: file, MaxConnections: 8, MaxRequests: 16}, page)
		for _, offer := range [][]string{nil, {"http/1.1"}, {"h2", "http/1.1"}} {
			c := tls.Client(n.dial("10.0.0.1"), &tls.Config{InsecureSkipVerify: true, NextProtos: offer})
			if err := c.Handshake(); err != nil {
				t.Fatal(err)
			}
			if p := c.ConnectionState().NegotiatedProtocol; p != "" && p != "http/1.1" {
				t.Errorf("client offers %q, server selects %q, want http/1.1", offer, p)
			}
			if !request(c) {
				t.Errorf("client offers %q: the response does not use HTTP/1.1", offer)
			}
		}
		if err := tls.Client(n.dial("10.0.0.1"), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}).Handshake(); err == nil {
			t.Error("server accepts a client that offers only HTTP/2")
		}
		if log := n.log.String(); !strings.Contains(log, "TLS is enabled.") || strings.Contains(log, "http2") {
			t.Errorf("the log has no line about TLS, or it mentions http2:\n%s", log)
		}
		plain := newNetwork(t, serve.Config{MaxConnections: 8, MaxRequests: 16}, page)
		for _, c := range []io.ReadWriter{plain.dial("10.0.0.1"), tls.Client(n.dial("10.0.0.1"), &tls.Config{InsecureSkipVerify: true})} {
			go func() {
				_, _ = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
			}()
			if line, err := bufio.NewReader(c).ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.") {
				t.Errorf("response to HTTP/2 without negotiation is %q, error %v, want HTTP/1", line, err)
			}
		}
	})
}

// TestPasswordsWait checks that the request limit applies before passwords are checked. Otherwise, clients that guess
// passwords could delay a scraper for a long time.
func TestPasswordsWait(t *testing.T) {
	// The hash is the bcrypt hash, with the lowest cost, of the password swordfish.
	file := webConfig(t, "basic_auth_users: {scraper: $2a$04$o8a0URxx3MB7cApnsOEU0eOzD4y7zX9zU4/v2d/ci4MyPik2kSarG}\n")
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		n := newNetwork(t, serve.Config{WebConfigFile: file, MaxConnections: 8, MaxRequests: 1}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
		get := func(password string) int {
			request, err := http.NewRequest(http.MethodGet, "https://gpu-node/page", http.NoBody)
			if err != nil {
				t.Error(err)
				return 0
			}
			request.SetBasicAuth("scraper", password)
			client := n.client("10.0.0.1")
			client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
			response, err := client.Do(request)
			if err != nil {
				t.Error(err)
				return 0
			}
			_ = response.Body.Close()
			return response.StatusCode
		}
		held := make(chan int, 1)
		go func() { held <- get("swordfish") }()
		synctest.Wait()
		if status := get("guess"); status != http.StatusServiceUnavailable {
			t.Errorf("status %d while another request is served, want 503", status)
		}
		close(release)
		if status := <-held; status != http.StatusOK {
			t.Errorf("status %d with the password, want 200", status)
		}
		if status := get("guess"); status != http.StatusUnauthorized {
			t.Errorf("status %d with a wrong password, want 401", status)
		}
	})
}

func webConfig(t *testing.T, more string) string {
	t.Helper()
	dir := t.TempDir()
	certificate.Write(t, dir, "gpu-node") // the certificate is created in the synctest bubble, so that it is valid in the year 2000 of the bubble's clock
	file := filepath.Join(dir, "web.yml")
	if err := os.WriteFile(file, []byte("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"+more), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
