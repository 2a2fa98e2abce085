//go:build realtime

package main_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/certificate"
)

// hashed is the bcrypt hash of password, with the lowest cost.
const (
	password = "swordfish"
	hashed   = "$2a$04$o8a0URxx3MB7cApnsOEU0eOzD4y7zX9zU4/v2d/ci4MyPik2kSarG"
)

// The status page must name the boards, may load only its own style sheet, and is never cached.
func TestPageForPeople(t *testing.T) {
	e := start(t, newNode(t, "gb200"))
	response, err := http.Get(e.url + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1761925340118", "1820925190655", "research/moe-train-0", `<a href="./metrics">`} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	for header, want := range map[string]string{
		"Content-Type":            "text/html; charset=utf-8",
		"Content-Security-Policy": "default-src 'none'; style-src 'sha256-",
		"X-Content-Type-Options":  "nosniff",
		"Cache-Control":           "no-store",
	} {
		if got := response.Header.Get(header); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
}

func TestStatus(t *testing.T) {
	n := newNode(t, "timeslice")
	e := start(t, n)
	e.scrapeUntil("energy was charged", func(p page) bool { return p.Sum("gpuledger_container_energy_joules_total", nil) > 0 })
	if out := e.status("", "--url="+e.url); !strings.Contains(out, "held by team-a/twin-b main: 1 replica of the GPU") || !strings.Contains(out, "1653924021757") {
		t.Errorf("status prints:\n%s", out)
	}
	if out := e.status("", "--json", "--url="+e.url); !strings.Contains(out, `"serial": "1653924021757"`) {
		t.Errorf("status --json prints:\n%s", out)
	}
	tests := []struct{ flag, want string }{
		{"--url=http://" + closedAddress(t), "no exporter listens on this address"},
		{"--url=" + e.url + "/wrong", "no such page"},
		{"--url=" + e.url + "/metrics?", "no such page"},
		{"--url=127.0.0.1:9840", "must be the address of an exporter, such as http://127.0.0.1:9840"},
		{"--http.config.file=/does/not/exist", "--http.config.file=/does/not/exist: open /does/not/exist"},
	}
	for _, tt := range tests {
		if out := e.status("", tt.flag); !strings.HasPrefix(out, "gpuledger status: ") || strings.Count(out, "\n") != 1 || !strings.Contains(out, tt.want) {
			t.Errorf("%s: printed %q, want one line with %q", tt.flag, out, tt.want)
		}
	}
}

// closedAddress returns an address without a listener. The port stays reserved during the test, because other tests
// start exporters on any free port.
func closedAddress(t *testing.T) string {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", name.(*syscall.SockaddrInet4).Port)
}

// The command status must write to stderr only if it fails.
func (e *exporter) status(stdin string, flags ...string) string {
	e.t.Helper()
	var stdout, stderr strings.Builder
	cmd := exec.Command(binary, append([]string{"status"}, flags...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); (err != nil) != (stderr.Len() > 0) || (err != nil) == (stdout.Len() > 0) {
		e.t.Errorf("status %v: %v\nstdout: %s\nstderr: %s", flags, err, stdout.String(), stderr.String())
	}
	return stdout.String() + stderr.String()
}

// A web configuration must protect every page with TLS and a password. The exporter must stay within its container's
// limits while a thousand connections are open.
func TestTLSAndBasicAuth(t *testing.T) {
	n := newNode(t, "dgx-h100")
	e, roots := startSecure(t, n)
	client := newClient()
	client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	get := func(path, user, password string) int {
		request, err := http.NewRequest(http.MethodGet, e.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			request.SetBasicAuth(user, password)
		}
		response, err := client.Do(request)
		if err != nil {
			return 0
		}
		defer response.Body.Close()
		return response.StatusCode
	}
	eventually(t, "it is ready", func() bool { return get("/-/ready", "scraper", password) == http.StatusOK })
	for _, path := range []string{"/", "/metrics", "/metrics/record", "/inventory", "/health.json", "/status", "/-/healthy", "/-/ready", "/nothing"} {
		if status := get(path, "", ""); status != http.StatusUnauthorized {
			t.Errorf("%s without a password: status %d", path, status)
		}
		if status := get(path, "scraper", "guess"); status != http.StatusUnauthorized {
			t.Errorf("%s with a wrong password: status %d", path, status)
		}
		if status := get(path, "scraper", password); status != http.StatusOK && path != "/nothing" {
			t.Errorf("%s with the password: status %d", path, status)
		}
	}
	e.testSecureStatus()

	address := strings.TrimPrefix(e.url, "https://")
	for range 1000 {
		c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		ask(t, c, "/metrics")
	}
	if status := get("/metrics", "scraper", password); status != http.StatusOK {
		t.Errorf("with a thousand connections: status %d", status)
	}
	e.checkMemory("with a thousand TLS connections")
	e.stop()
}

func (e *exporter) testSecureStatus() {
	e.t.Helper()
	ca := "tls_config: {ca_file: " + filepath.Join(filepath.Dir(e.webConfig()), "cert.pem") + "}\n"
	tests := []struct{ url, config, want string }{
		{e.url, ca + "basic_auth: {username: scraper, password: " + password + "}", "8 GPUs present"},
		{e.url, ca + "basic_auth: {username: scraper, password: guess}", "authentication failed"},
		{e.url, ca, "authentication failed"},
		{e.url, "{}", "certificate"},
		{strings.Replace(e.url, "https", "http", 1), "{}", "the exporter serves HTTPS: use --url=https://"},
	}
	for _, tt := range tests {
		if out := e.status(tt.config, "--http.config.file=/dev/stdin", "--url="+tt.url); !strings.Contains(out, tt.want) {
			e.t.Errorf("%s with %q: got %q, want %q", tt.url, tt.config, out, tt.want)
		}
	}
}

func (e *exporter) webConfig() string {
	for _, arg := range e.cmd.Args {
		if path, ok := strings.CutPrefix(arg, "--web.config.file="); ok {
			return path
		}
	}
	return ""
}

// startSecure returns the certificate that verifies the exporter. It does not wait until the exporter is ready.
func startSecure(t *testing.T, n *simnode.Node, flags ...string) (*exporter, *x509.CertPool) {
	t.Helper()
	dir := t.TempDir()
	certificate.Write(t, dir, "127.0.0.1")
	config := fmt.Appendf(nil, "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\nbasic_auth_users: {scraper: %s}\n", hashed)
	if err := os.WriteFile(filepath.Join(dir, "web.yml"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	certPEM, err := os.ReadFile(filepath.Join(dir, "cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certPEM)
	e := launch(t, withLimits(n.Env()), onNode(n, append(flags, "--web.config.file="+filepath.Join(dir, "web.yml"))...)...)
	e.url = "https://" + <-e.listening
	return e, roots
}
