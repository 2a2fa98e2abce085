package nodes

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestHasSlices: only an API server that says so has no ResourceSlices; one that cannot
// answer is asked again.
func TestHasSlices(t *testing.T) {
	tests := []struct {
		name     string
		served   bool
		failures int
		took     time.Duration
	}{
		{"served", true, 0, 0},
		{"not served", false, 0, 0},
		{"served, not known at first", true, 2, 2 * slicesAgain},
		{"not served, not known at first", false, 1, slicesAgain},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kube, failures := fake.NewClientset(), tt.failures
				kube.Resources = nil
				if tt.served {
					kube.Resources = []*metav1.APIResourceList{{GroupVersion: "resource.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "resourceslices"}}}}
				}
				kube.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
					failures--
					return failures >= 0, nil, errors.New("the server is currently unable to handle the request")
				})
				trm := &term{kube: kube, log: slog.New(slog.DiscardHandler)}
				begun := time.Now()
				if got := trm.hasSlices(t.Context()); got != tt.served {
					t.Errorf("has slices: %v, want %v", got, tt.served)
				}
				if took := time.Since(begun); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
			})
		})
	}
}
