package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuledger/gpuledger/internal/nodelabel"
	"github.com/gpuledger/gpuledger/internal/reconciler/apiserver"
	"github.com/gpuledger/gpuledger/internal/reconciler/kubetest"
)

// TestApply checks that the request body contains only the Node's UID, the labels and the annotation. Without the UID,
// the request could create a Node.
func TestApply(t *testing.T) {
	to := metav1.ObjectMeta{Name: "a", UID: "u1"}
	kube := kubetest.New(&corev1.Node{ObjectMeta: to})
	want := desired("1")
	want.Annotations = map[string]string{"gpuledger.io/inventory": "{}"}
	if err := apply(t.Context(), kube, to, want); err != nil {
		t.Fatal(err)
	}
	patch, ok := kube.Actions()[0].(clienttesting.PatchAction)
	if !ok || len(kube.Actions()) != 1 || patch.GetPatchType() != types.ApplyPatchType || patch.GetName() != "a" {
		t.Fatalf("requests: %v", kube.Actions())
	}
	var body map[string]any
	if err := json.Unmarshal(patch.GetPatch(), &body); err != nil {
		t.Fatal(err)
	}
	metadata := map[string]any{
		"name": "a", "uid": "u1",
		"labels":      map[string]any{"gpuledger.io/gpu-0": "1"},
		"annotations": map[string]any{"gpuledger.io/inventory": "{}"},
	}
	if diff := cmp.Diff(map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": metadata}, body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

// TestNothingToTakeOver checks that takeOver sends no empty patch to a Node whose labels it already took over.
func TestNothingToTakeOver(t *testing.T) {
	kube := kubetest.New(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	trm := &term{kube: kube, opts: *testOptions(nodelabel.GPUID, "gpuid.github.com")}
	if err := trm.takeOver(t.Context(), "a"); !errors.Is(err, errNothing) {
		t.Errorf("error: %v", err)
	}
	for _, action := range kube.Actions() {
		if action.GetVerb() == "patch" {
			t.Errorf("request: %v", action)
		}
	}
}

// TestTermEndsUnderAWrite ends the context during a write. The interrupted write must not count as a failure.
func TestTermEndsUnderAWrite(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	released := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		end()
		<-released
	}))
	defer server.Close()
	defer close(released)
	kube, err := apiserver.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	trm := &term{
		kube: kube, opts: *testOptions(nodelabel.Own, "gpuledger.io"), log: slog.New(slog.DiscardHandler),
		counts: newCounts(), memory: newMemory(), writeRate: rate.NewLimiter(rate.Inf, 1),
	}
	if !trm.write(ctx, &node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u1"}}, kindFirst, desired("1")) {
		t.Error("the write would be tried again")
	}
	var failures dto.Metric
	if err := trm.counts.writeFailures.WithLabelValues("error").Write(&failures); err != nil || failures.Counter.GetValue() != 0 {
		t.Errorf("%v failures are counted (%v)", failures.Counter.GetValue(), err)
	}
}
