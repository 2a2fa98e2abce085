//go:build realtime

package main_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func (e *exporter) peak() int64 {
	e.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.cmd.Process.Pid))
	if err != nil {
		e.t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	var kib int64
	if _, err := fmt.Sscan(string(rest), &kib); err != nil {
		e.t.Fatal(err)
	}
	return kib << 10
}

func (e *exporter) checkMemory(what string) {
	e.t.Helper()
	const mib = 1 << 20
	peak := e.peak()
	e.t.Logf("%s: peak of %d MiB", what, peak/mib)
	if peak > memoryLimit*3/4 {
		e.t.Errorf("%s: peak of %d MiB, too near the container's limit of %d MiB", what, peak/mib, memoryLimit/mib)
	}
}

func (e *exporter) dial(n int) []net.Conn {
	e.t.Helper()
	var conns []net.Conn
	for range n {
		c, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
		if err != nil {
			e.t.Fatal(err)
		}
		e.t.Cleanup(func() { _ = c.Close() })
		conns = append(conns, c)
	}
	return conns
}

// ask does not read the response.
func ask(t *testing.T, c net.Conn, path string) {
	t.Helper()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		t.Fatal(err)
	}
}

// withLimits adds the memory limit of the exporter's container.
func withLimits(env []string) []string { return append(slices.Clone(env), "GOMEMLIMIT=100MiB") }

// A thousand connections make one request each and then stay idle. A scraper must still get its page immediately, over
// an existing connection and over a new connection.
func TestIdleConnections(t *testing.T) {
	n := newNode(t, "dgx-h100")
	e := run(t, withLimits(n.Env()), onNode(n)...)
	connected := elsewhere(true)
	e.timeScrape(connected, "a scraper alone")
	for _, c := range e.dial(1000) {
		ask(t, c, "/metrics")
	}
	e.timeScrape(connected, "a connected scraper")
	e.timeScrape(elsewhere(false), "a new scraper")
	e.checkMemory("with a thousand idle connections")
	e.stop()
}

// Connections without a request must be closed, so that other connections are accepted.
func TestSilentConnections(t *testing.T) {
	n := newNode(t, "dgx-h100")
	e := run(t, withLimits(n.Env()), onNode(n)...)
	connected := elsewhere(true)
	e.timeScrape(connected, "a scraper alone")
	e.dial(2000)
	e.timeScrape(connected, "a connected scraper")
	e.timeScrape(elsewhere(false), "a new scraper")
	e.checkMemory("with 2,000 silent connections")
	e.stop()
}

// newClient returns a client that opens a connection for each request.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: hangTimeout}
}

// elsewhere returns a client that sends requests from 127.0.0.2.
func elsewhere(keep bool) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: !keep, DialContext: dialer.DialContext}, Timeout: hangTimeout}
}

func (e *exporter) timeScrape(client *http.Client, who string) {
	e.t.Helper()
	began := time.Now()
	response, err := client.Get(e.url + "/metrics")
	if err != nil {
		e.t.Fatalf("%s: %v", who, err)
	}
	defer response.Body.Close()
	if _, err = io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
		e.t.Errorf("%s got status %d, error %v", who, response.StatusCode, err)
	}
	e.t.Logf("%s waited %v", who, time.Since(began).Round(time.Millisecond))
}

// A client that does not read its responses must first be rejected with status 503 and Retry-After, and later
// disconnected. In the meantime, other clients must be served.
func TestSlowReaders(t *testing.T) {
	n := newNode(t, "dgx-h100")
	e := run(t, withLimits(n.Env()), onNode(n)...)
	began := time.Now()
	var slow []net.Conn
	eventually(t, "requests from its address are rejected", func() bool {
		// The test opens connections one after another, until their requests occupy all slots of one address. If it
		// sent several requests at once, the server might reject some of them, and a rejected request occupies no slot.
		slow = append(slow, e.dial(1)...)
		askInVain(t, slow[len(slow)-1])
		response, err := newClient().Get(e.url + "/metrics")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") != ""
	})
	for _, c := range e.dial(200) {
		askInVain(t, c)
	}
	// Like the kubelet's probes, this request comes from another address than the slow clients.
	response, err := elsewhere(false).Get(e.url + "/-/healthy")
	if err != nil {
		t.Fatal(err)
	}
	if response.Body.Close(); response.StatusCode != http.StatusOK {
		t.Errorf("the liveness probe of a busy exporter has status %d", response.StatusCode)
	}
	e.timeScrape(elsewhere(false), "a scraper at another address")
	for _, c := range slow {
		for !isCut(c) {
			if time.Since(began) > hangTimeout {
				t.Fatal("a slow reader was never disconnected")
			}
			<-time.After(100 * time.Millisecond)
		}
	}
	t.Logf("the slow readers were disconnected after %v", time.Since(began).Round(time.Second))
	e.checkMemory("with 200 slow readers")
	e.stop()
}

// askInVain requests more pages than fit into the kernel's buffers, and does not read them.
func askInVain(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.(*net.TCPConn).SetReadBuffer(1); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 1000)); err != nil {
		t.Fatal(err)
	}
}

// isCut finds out whether the server has closed a connection, by writing to it.
func isCut(c net.Conn) bool {
	_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	_, err := io.WriteString(c, "\r\n")
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

func TestHugeHeader(t *testing.T) {
	n := newNode(t, "idle")
	e := run(t, withLimits(n.Env()), onNode(n)...)
	c := e.dial(1)[0]
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(c, io.MultiReader(strings.NewReader("GET / HTTP/1.1\r\nHost: x\r\nX: "), endless{}))
		ended <- err
	}()
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d, want %d", response.StatusCode, http.StatusRequestHeaderFieldsTooLarge)
	}
	if err := <-ended; err == nil {
		t.Error("the server read more than its limit of an endless header")
	}
	e.checkMemory("with a header without an end")
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

func TestNothingEchoed(t *testing.T) {
	e := start(t, newNode(t, "idle"))
	const token = "xyzzy"
	for _, path := range []string{
		"/", "/metrics", "/metrics/record", "/inventory", "/health.json", "/status", "/-/ready", "/nothing", "/nothing/", "//nothing", "/a/../metrics", "/%2e%2e/",
		"/metrics/", "/status/<b>",
	} {
		for _, target := range []string{path + "?name[]=" + token + "&" + token, path + token, "/" + token + path} {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "OPTIONS", token} {
				c := e.dial(1)[0]
				fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %[3]s\r\nUser-Agent: %[3]s\r\nReferer: http://%[3]s/\r\n%[3]s: %[3]s\r\nAccept: %[3]s\r\nConnection: close\r\nContent-Length: 5\r\n\r\n%[3]s",
					method, target, token)
				answer, err := io.ReadAll(c)
				if err != nil {
					t.Fatal(err)
				}
				if len(answer) == 0 || bytes.Contains(answer, []byte(token)) {
					t.Errorf("%s %s is answered with:\n%s", method, target, answer)
				}
			}
		}
	}
}
