//go:build realtime

package main_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// attackers exceeds --web.max-connections. The connections come from several addresses, because the exporter limits the
// number of connections from one address.
const (
	attackers = 1024
	addresses = 8
)

// Clients without a password must not make the exporter exceed the memory limit of its container. A scraper must be
// served in the meantime.
func TestFloods(t *testing.T) {
	shortLines := manyHeaders(8000)
	tests := []struct {
		name  string
		offer []string // protocols; if it is empty, the client uses HTTP/1.1
		send  func(c *tls.Conn) error
	}{
		{"idle", nil, func(c *tls.Conn) error { return get(c, "") }},
		{"endless header", nil, func(c *tls.Conn) error {
			_, err := io.WriteString(c, "GET /-/healthy HTTP/1.1\r\nHost: x\r\n"+shortLines)
			return err
		}},
		{"incomplete body", nil, func(c *tls.Conn) error { return get(c, "Content-Length: 10\r\n"+shortLines) }},
		{"pipelined requests without reading the responses", nil, func(c *tls.Conn) error {
			for range 500 {
				if err := get(c, ""); err != nil {
					return err
				}
			}
			return get(c, shortLines)
		}},
		{"HTTP/2 with window 0", []string{"h2", "http/1.1"}, windowZero},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startLimited(t)
			s.flood(func(c net.Conn) error {
				secure := tls.Client(c, &tls.Config{RootCAs: s.roots, ServerName: "127.0.0.1", NextProtos: tt.offer})
				if err := secure.Handshake(); err != nil {
					return err
				}
				return tt.send(secure)
			})
		})
	}
	t.Run("incomplete handshake", func(t *testing.T) { startLimited(t).flood(longHello) })
}

// limited is an exporter with TLS, basic auth and the memory limit of its container.
type limited struct {
	*exporter
	memory *memoryGroup
	roots  *x509.CertPool
}

func startLimited(t *testing.T) *limited {
	t.Helper()
	m := newMemoryGroup(t)
	n := newNode(t, "dgx-h100")
	config, roots := secureConfig(t)
	e := launch(t, withLimits(n.Env()), onNode(n, "--web.config.file="+config)...)
	select {
	case address := <-e.listening:
		e.url = "https://" + address
	case <-e.exited:
		t.Fatal("exited at once")
	}
	s := &limited{exporter: e, memory: m, roots: roots}
	client := s.scraper()
	eventually(t, "the page is served", func() bool { return s.scrapeBy(client) == nil })
	return s
}

func (s *limited) flood(attack func(net.Conn) error) {
	s.t.Helper()
	before := s.memory.peak()
	connected := s.scraper()
	if err := s.scrapeBy(connected); err != nil {
		s.t.Fatal(err)
	}
	var failed atomic.Int64
	var opened sync.WaitGroup
	queue := make(chan int)
	for range 16 {
		opened.Go(func() {
			for i := range queue {
				if err := s.attackFrom(fmt.Sprintf("127.0.1.%d", 1+i%addresses), attack); err != nil {
					failed.Add(1)
					if errors.Is(err, errHTTP2) {
						s.t.Error(err)
					}
				}
			}
		})
	}
	for i := range attackers {
		queue <- i
		if i%256 == 255 {
			s.check(connected)
		}
	}
	close(queue)
	opened.Wait()
	s.check(connected)
	s.t.Logf("peak of %d MiB before the attack and %d MiB after it; %d of %d connections were refused, or closed while the client sent",
		before>>20, s.memory.peak()>>20, failed.Load(), attackers)
	if s.memory.peak() > memoryLimit*7/8 {
		s.t.Errorf("%d MiB are too near the limit of %d MiB", s.memory.peak()>>20, memoryLimit>>20)
	}
}

// The connection stays open until the end of the test.
func (s *limited) attackFrom(address string, attack func(net.Conn) error) error {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c, err := dialer.DialContext(s.t.Context(), "tcp", strings.TrimPrefix(s.url, "https://"))
	if err != nil {
		return err
	}
	s.t.Cleanup(func() { _ = c.Close() })
	if err := c.(*net.TCPConn).SetReadBuffer(1); err != nil {
		return err
	}
	// Some attacks must fill the connection until the server stops reading from it.
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if err := attack(c); !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}

func (s *limited) check(connected *http.Client) {
	s.t.Helper()
	for name, client := range map[string]*http.Client{"connected": connected, "new": s.scraper()} {
		began := time.Now()
		if err := s.scrapeBy(client); err != nil {
			s.t.Errorf("%s scraper: %v", name, err)
		}
		s.t.Logf("%s scraper: %v", name, time.Since(began).Round(time.Millisecond))
	}
	select {
	case <-s.exited:
		s.t.Fatalf("the exporter ended: %v", s.err)
	default:
	}
}

// scraper returns a client that sends the password, from an address without attackers.
func (s *limited) scraper() *http.Client {
	client := elsewhere(true)
	client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: s.roots}
	s.t.Cleanup(client.CloseIdleConnections)
	return client
}

func (s *limited) scrapeBy(client *http.Client) error {
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+"/metrics", http.NoBody)
	if err != nil {
		return err
	}
	request.SetBasicAuth("scraper", password)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err = io.Copy(io.Discard, response.Body); err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", response.StatusCode)
	}
	return err
}

// get does not read the response.
func get(c net.Conn, headers string) error {
	_, err := io.WriteString(c, "GET /-/healthy HTTP/1.1\r\nHost: x\r\n"+headers+"\r\n")
	return err
}

// Parsed requests with short headers take more memory than other requests of the same size.
func manyHeaders(size int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~"
	var b strings.Builder
	for i := 0; b.Len() < size-6; i++ {
		for n := i; ; n /= len(letters) {
			b.WriteByte(letters[n%len(letters)])
			if n < len(letters) {
				break
			}
		}
		b.WriteString(":\n")
	}
	return b.String()
}

var errHTTP2 = errors.New("the server negotiated HTTP/2")

// windowZero requests eight responses over HTTP/2 with a window of 0 bytes, even if the server did not negotiate
// HTTP/2.
func windowZero(c *tls.Conn) error {
	frames := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" +
		"\x00\x00\x06\x04\x00\x00\x00\x00\x00" + "\x00\x04\x00\x00\x00\x00" // SETTINGS_INITIAL_WINDOW_SIZE=0
	for stream := range 8 {
		// The headers: GET, https, authority x, path /-/healthy.
		block := "\x82\x87\x41\x01x\x44\x0a/-/healthy"
		frames += "\x00\x00" + string(rune(len(block))) + "\x01\x05\x00\x00\x00" + string(rune(2*stream+1)) + block
	}
	if _, err := io.WriteString(c, frames); err != nil {
		return err
	}
	if c.ConnectionState().NegotiatedProtocol == "h2" {
		return errHTTP2
	}
	return nil
}

// longHello sends most of a ClientHello of 64 KiB, which is the largest ClientHello that crypto/tls accepts.
func longHello(c net.Conn) error {
	hello := append([]byte{1, 0, 0xff, 0xff}, make([]byte, 65_000)...)
	for len(hello) > 0 {
		size := min(16<<10, len(hello))
		if _, err := c.Write(append([]byte{22, 3, 1, byte(size >> 8), byte(size)}, hello[:size]...)); err != nil {
			return err
		}
		hello = hello[size:]
	}
	return nil
}

// secureConfig writes a web configuration with TLS and a password, and returns the certificate that verifies the
// server.
func secureConfig(t *testing.T) (file string, roots *x509.CertPool) {
	t.Helper()
	example := httptest.NewTLSServer(nil)
	defer example.Close()
	key, err := x509.MarshalPKCS8PrivateKey(example.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"cert.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: example.Certificate().Raw}),
		"key.pem":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"web.yml":  fmt.Appendf(nil, "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\nbasic_auth_users: {scraper: %s}\n", hashed),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots = x509.NewCertPool()
	roots.AddCert(example.Certificate())
	return filepath.Join(dir, "web.yml"), roots
}

func TestManyScrapers(t *testing.T) {
	n := newNode(t, "dgx-h100")
	e := run(t, withLimits(n.Env()), onNode(n)...)
	for _, scrapers := range []int{16, 64} {
		var slowest atomic.Int64
		g, _ := errgroup.WithContext(context.Background())
		for range scrapers {
			client := elsewhere(true)
			g.Go(func() error {
				defer client.CloseIdleConnections()
				for range 20 {
					began := time.Now()
					response, err := client.Get(e.url + "/metrics")
					if err != nil {
						return err
					}
					_, err = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
					if err != nil {
						return err
					}
					if response.StatusCode != http.StatusOK {
						return fmt.Errorf("status %d", response.StatusCode)
					}
					if took := int64(time.Since(began)); took > slowest.Load() {
						slowest.Store(took)
					}
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			t.Errorf("%d scrapers: %v", scrapers, err)
		}
		t.Logf("%d scrapers: the slowest of %d scrapes took %v", scrapers, 20*scrapers, time.Duration(slowest.Load()))
	}
	if refused := e.scrape().Sum("gpuledger_http_overload_total", nil); refused != 0 {
		t.Errorf("%v connections or requests were refused", refused)
	}
	e.stop()
}

// A new scraper must be served even if its own address has many idle connections. The server must close idle
// connections, count them, and log them in one line.
func TestNewScraperAmongIdleConnections(t *testing.T) {
	n := newNode(t, "dgx-h100")
	e := run(t, withLimits(n.Env()), onNode(n)...)
	for _, c := range e.dial(1023) {
		_, _ = io.WriteString(c, "GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	e.timeScrape(newClient(), "a new scraper at the same address")
	e.timeScrape(elsewhere(false), "a new scraper at another address")
	if closed := e.scrape().Sum("gpuledger_http_overload_total", map[string]string{"action": "connection_closed"}); closed < 1023-128 {
		t.Errorf("%v connections closed, want at least %d", closed, 1023-128)
	}
	if lines := strings.Count(strings.Join(e.logged(), "\n"), `"action":"connection_closed"`); lines != 1 {
		t.Errorf("%d lines about closed connections, want 1", lines)
	}
	e.stop()
}
