//go:build e2e

package reconciler_test

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// proxy responds to some requests itself and forwards the others to the API server.
type proxy struct {
	access *rest.Config // access of the reconciler, through the proxy

	mu    sync.Mutex
	fault func(*http.Request) *meta.Status // returns the proxy's response; if it is nil or returns nil, the API server responds
}

func newProxy(t testing.TB) *proxy {
	t.Helper()
	access := must(world.ServiceAccount(t.Context(), namespace, account))(t)
	p := &proxy{access: rest.CopyConfig(access)}
	// The proxy passes the token on. The transport trusts the API server's certificate.
	transport := must(rest.TransportFor(rest.AnonymousClientConfig(access)))(t)
	behind := httputil.NewSingleHostReverseProxy(must(url.Parse(access.Host))(t))
	behind.Transport, behind.FlushInterval = transport, -1 // forwards the events of a watch at once
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := p.faultOf(r); status != nil {
			answerStatus(w, status)
			return
		}
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections() // a watch does not end on its own
		server.Close()
	})
	p.access.Host = server.URL
	p.access.TLSClientConfig = rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
	return p
}

func (p *proxy) fails(fault func(*http.Request) *meta.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

func (p *proxy) faultOf(r *http.Request) *meta.Status {
	p.mu.Lock()
	fault := p.fault
	p.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(r)
}

func answerStatus(w http.ResponseWriter, status *meta.Status) {
	status.Kind, status.APIVersion, status.Status = "Status", "v1", meta.StatusFailure
	w.Header().Set("Content-Type", "application/json")
	if status.Code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status) // the client may have closed the connection
}
