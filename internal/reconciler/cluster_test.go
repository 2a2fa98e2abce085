package reconciler

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/gpuledger/gpuledger/test/pipes"
)

// TestRequestTimeout checks that a request to a hanging API server times out, but a watch without events does not.
func TestRequestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := make(pipes.Listener)
		ctx, stop := context.WithCancel(t.Context())
		server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("watch") {
				w.Header().Set("Content-Type", "application/json")
				_ = http.NewResponseController(w).Flush() // the test reads the response
			}
			<-ctx.Done()
		})}
		go func() { _ = server.Serve(listener) }() // Serve returns when the test closes the server
		defer func() {
			stop()
			_ = server.Close()
		}()
		c, err := clients(&rest.Config{Host: "http://api", Dial: listener.Dial})
		if err != nil {
			t.Fatal(err)
		}

		requests := map[string]func() error{
			"patch a node": func() error {
				_, err := c.kube.Nodes().Patch(ctx, "a", types.ApplyPatchType, []byte(`{}`), metav1.PatchOptions{FieldManager: "gpuledger"})
				return err
			},
			"get the lease": func() error {
				_, err := c.kube.Leases("gpuledger").Get(ctx, "gpuledger-reconciler", metav1.GetOptions{})
				return err
			},
			"get an owner": func() error {
				_, err := c.metadata.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}).Namespace("a").Get(ctx, "a", metav1.GetOptions{})
				return err
			},
		}
		for name, request := range requests {
			begun, ended := time.Now(), make(chan error, 1)
			go func() { ended <- request() }()
			select {
			case err := <-ended:
				if took := time.Since(begun); err == nil || took > requestTimeout {
					t.Errorf("%s: ended after %v with %v", name, took, err)
				}
			case <-time.After(time.Hour):
				t.Errorf("%s: hangs", name)
			}
		}

		watch, err := c.watches.Nodes().Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Stop()
		select {
		case event, open := <-watch.ResultChan():
			t.Errorf("the watch: event %v, open %v", event, open)
		case <-time.After(time.Hour):
		}
	})
}
