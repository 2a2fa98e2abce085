package chain

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/test/certificate"
	"github.com/gpuledger/gpuledger/test/fatal"
	"github.com/gpuledger/gpuledger/test/pipes"
)

var check = fatal.If

var sample = Checkpoint{Sink: "postgres", Cluster: "east", Sequence: 7, Hash: "00ff", Time: time.Date(2026, 10, 31, 14, 5, 0, 0, time.UTC), Key: "key", Signature: "c2ln"}

const password = "hunter2-secret"

// receiver is a server that requires a password. It responds with the given statuses, and then with 204. If the status
// is 0, it never responds.
type receiver struct {
	t        *testing.T
	statuses []int
	paths    []string // method and path of all requests
	accepted []Checkpoint
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.paths = append(r.paths, request.Method+" "+request.URL.Path)
	body, err := io.ReadAll(request.Body)
	if err != nil {
		r.t.Error(err)
	}
	if len(r.statuses) > 0 {
		status := r.statuses[0]
		r.statuses = r.statuses[1:]
		if status == 0 {
			<-request.Context().Done()
			panic(http.ErrAbortHandler) // a normal return would send status 200
		}
		w.Header().Set("Location", "/other")
		w.WriteHeader(status)
		return
	}
	if user, text, _ := request.BasicAuth(); user != "archive" || text != password {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if request.Method == http.MethodGet {
		for _, c := range r.accepted {
			_ = json.NewEncoder(w).Encode(c)
		}
		return
	}
	sum := sha256.Sum256(body)
	// RFC 9530, section 2, defines the header. RFC 8941, section 3.3.5, defines its byte sequence.
	if got, want := request.Header.Get("Content-Digest"), "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":"; got != want {
		r.t.Errorf("Content-Digest %q, want %q", got, want)
	}
	var c Checkpoint
	if err := json.Unmarshal(body, &c); err != nil || request.Header.Get("Content-Type") != "application/json" {
		r.t.Errorf("%q of type %q: %v", body, request.Header.Get("Content-Type"), err)
	}
	r.accepted = append(r.accepted, c)
	w.WriteHeader(http.StatusNoContent)
}

func TestServer(t *testing.T) {
	post := "POST /checkpoints"
	tests := map[string]struct {
		statuses []int
		config   string
		requests []string
		after    time.Duration
		err      string // part of the error; empty if no error is expected
	}{
		"accepted":           {requests: []string{post}},
		"two failures":       {statuses: []int{503, 429}, requests: []string{post, post, post}, after: 3 * time.Second},
		"three failures":     {statuses: []int{500, 502, 503}, requests: []string{post, post, post}, after: 3 * time.Second, err: "503"},
		"no answer":          {statuses: []int{0, 0, 0}, requests: []string{post, post, post}, after: 33 * time.Second, err: "exceeded"},
		"rejected":           {statuses: []int{403}, requests: []string{post}, err: "403"},
		"redirect":           {statuses: []int{307}, requests: []string{post}, err: "redirects"},
		"moved":              {statuses: []int{301}, requests: []string{post}, err: "redirects"},
		"wrong password":     {config: "basic_auth: {username: archive, password: wrong-secret}", requests: []string{post}, err: "401"},
		"redirects followed": {statuses: []int{308}, config: "follow_redirects: true", requests: []string{post}, err: "redirects"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				r := &receiver{t: t, statuses: tt.statuses}
				s, stop := r.start(t, dir, tt.config)
				began := time.Now()
				err := s.publish(t.Context(), sample)
				if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "token=")) {
					t.Errorf("the error contains a secret: %v", err)
				}
				if took := time.Since(began); took != tt.after {
					t.Errorf("the call took %v, want %v", took, tt.after)
				}
				if diff := cmp.Diff(tt.requests, r.paths); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				if tt.err == "" {
					got, err := s.published(t.Context())
					if diff := cmp.Diff([]Checkpoint{sample}, got); diff != "" || err != nil {
						t.Errorf("%v, published (-want +got):\n%s", err, diff)
					}
				}
				stop()
			})
		})
	}
}

// A server with a certificate from an unknown authority must receive no request, and only one connection.
func TestUnknownAuthority(t *testing.T) {
	asked, connections := 0, 0
	other := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	other.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections++
		}
	}
	other.Config.ErrorLog = log.New(io.Discard, "", 0)
	other.StartTLS()
	err := Publish(t.Context(), other.URL, "", sample)
	other.Close()
	if err == nil || !strings.Contains(err.Error(), "certificate") || asked != 0 || connections != 1 {
		t.Errorf("%d requests, %d connections, error %v", asked, connections, err)
	}
}

// listen writes the files of the server's certificate to dir.
func listen(t *testing.T, dir, name string, handler http.Handler) (listener pipes.Listener, stop func()) {
	t.Helper()
	certificate.Write(t, dir, name)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	check(t, err)
	listener = make(pipes.Listener)
	web := &http.Server{Handler: handler}
	go func() {
		_ = web.Serve(tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}))
	}()
	return listener, func() {
		<-time.After(time.Hour) // time passes in the bubble until the connections end; otherwise both ends of a pipe would wait for each other
		check(t, web.Close())
	}
}

// The client uses the YAML settings in more, and trusts the server's certificate. If more does not contain basic_auth,
// the client sends the password.
func (r *receiver) start(t *testing.T, dir, more string) (s *server, stop func()) {
	t.Helper()
	listener, stop := listen(t, dir, "audit.example.com", r)
	more += "\ntls_config: {ca_file: " + filepath.Join(dir, "cert.pem") + "}"
	if !strings.Contains(more, "basic_auth") {
		more += "\nbasic_auth: {username: archive, password: " + password + "}"
	}
	settings := filepath.Join(dir, "http.yaml")
	check(t, os.WriteFile(settings, []byte(strings.TrimSpace(more)+"\n"), 0o600))
	at, err := url.Parse("https://audit.example.com/checkpoints?token=abcdef")
	check(t, err)
	return &server{url: at, httpConfig: settings, dial: listener.Dial}, stop
}

// For each chain, a ConfigMap must keep all checkpoints of two days, and the last checkpoint of each earlier day. The
// number of checkpoints must never exceed the limit.
func TestBounded(t *testing.T) {
	at := func(sink string, hour int) Checkpoint {
		return Checkpoint{Sink: sink, Cluster: "east", Sequence: int64(hour + 1), Time: time.Date(2026, 1, 1, hour, 5, 0, 0, time.UTC)}
	}
	var all, want []Checkpoint
	for hour := range 24*5 + 6 { // until 05:05 on the sixth day
		all = append(all, at("postgres", hour))
		if hour < 24*3+6 && hour%24 == 23 || hour >= 24*3+6 {
			want = append(want, at("postgres", hour))
		}
	}
	if diff := cmp.Diff(want, bounded(all)); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	old := Checkpoint{Sink: "folder", Cluster: "west", Sequence: 1, Time: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)}
	kept := []Checkpoint{old}
	for day := range 3 * maxKept {
		kept = append(kept, at("postgres", 24*day))
	}
	kept = bounded(kept)
	if len(kept) != maxKept+1 || kept[0] != old || kept[len(kept)-1] != at("postgres", 24*(3*maxKept-1)) {
		t.Errorf("%d checkpoints from %v to %v", len(kept), kept[0], kept[len(kept)-1])
	}
}
