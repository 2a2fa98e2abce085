package watch_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuledger/gpuledger/internal/reconciler/apiserver"
	"github.com/gpuledger/gpuledger/internal/reconciler/kubetest"
	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
)

var slices = resourcev1.SchemeGroupVersion.WithResource("resourceslices")

// TestServed checks that Served finds a resource that an upgrade of the API server adds. Served must soon repeat a
// failed request.
func TestServed(t *testing.T) {
	had := &metav1.APIResourceList{GroupVersion: slices.GroupVersion().String(), APIResources: []metav1.APIResource{{Name: slices.Resource}}}
	old := &metav1.APIResourceList{GroupVersion: slices.GroupVersion().String(), APIResources: []metav1.APIResource{{Name: "deviceclasses"}}}
	away := errors.New("the server is currently unable to handle the request")
	tests := []struct {
		name   string
		looks  []*metav1.APIResourceList // served resources at each check; nil if the API group is missing
		fails  int                       // number of checks that fail before the checks in looks
		took   time.Duration
		logged int
	}{
		{"served", []*metav1.APIResourceList{had}, 0, 0, 0},
		{"after an upgrade", []*metav1.APIResourceList{nil, old, had}, 0, 20 * time.Minute, 0},
		{"unknown at first", []*metav1.APIResourceList{had}, 2, time.Minute, 1},
		{"unknown at first, and not served", []*metav1.APIResourceList{nil, had}, 1, 10*time.Minute + 30*time.Second, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kube, look := kubetest.New(), 0
				kube.PrependReactor("get", "resources", func(clienttesting.Action) (bool, runtime.Object, error) {
					look++
					if look <= tt.fails {
						return true, nil, away
					}
					kube.Resources = nil
					if list := tt.looks[look-tt.fails-1]; list != nil {
						kube.Resources = []*metav1.APIResourceList{list}
					}
					return false, nil, nil
				})
				var out bytes.Buffer
				begun := time.Now()
				if !watch.Served(t.Context(), kube, slices, slog.New(slog.NewTextHandler(&out, nil))) {
					t.Error("the resource is not served")
				}
				if took := time.Since(begun); took != tt.took {
					t.Errorf("waiting took %v, want %v", took, tt.took)
				}
				if logged := strings.Count(out.String(), "level=WARN"); logged != tt.logged {
					t.Errorf("logged %d times, want %d:\n%s", logged, tt.logged, &out)
				}
			})
		})
	}
}

// TestServedEnds checks that Served returns immediately after the end of the context. The resource may be missing, or
// the API server may hang.
func TestServedEnds(t *testing.T) {
	hangs := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hangs }))
	defer server.Close()
	defer close(hangs)
	hanging, err := apiserver.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for name, kube := range map[string]watch.Server{"missing": kubetest.New(), "hanging": hanging} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if watch.Served(ctx, kube, slices, slog.New(slog.DiscardHandler)) {
				t.Error("the resource is served")
			}
		})
	}
}
