package nodes

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuledger/gpuledger/internal/nodelabel"
	"github.com/gpuledger/gpuledger/internal/reconciler/kubetest"
)

// TestCleanupOfManyNodes checks that Cleanup cleans all Nodes even if the writes take a long time. The API server
// serves the pages of a list only for a few minutes.
func TestCleanupOfManyNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		labelled := func(name string) corev1.Node {
			return corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: name, UID: "u", ManagedFields: []metav1.ManagedFieldsEntry{ours(`{"f:metadata":{"f:labels":{"f:gpuledger.io/gpu-0":{}}}}`)},
			}}
		}
		first := corev1.NodeList{ListMeta: metav1.ListMeta{Continue: "more"}, Items: []corev1.Node{labelled("a"), {ObjectMeta: metav1.ObjectMeta{Name: "b"}}, labelled("c")}}
		second := corev1.NodeList{Items: []corev1.Node{labelled("d")}}
		kube, began := kubetest.New(), time.Now()
		kube.PrependReactor("list", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
			switch {
			case action.(clienttesting.ListActionImpl).ListOptions.Continue == "":
				return true, &first, nil
			case time.Since(began) > 5*time.Minute:
				return true, nil, apierrors.NewResourceExpired("The provided continue parameter is too old")
			}
			return true, &second, nil
		})
		var written []string
		kube.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
			written = append(written, action.(clienttesting.PatchAction).GetName())
			return true, &corev1.Node{}, nil
		})
		opts := *testOptions(nodelabel.Own, "gpuledger.io")
		opts.Writes = 1.0 / 600 // each write takes ten minutes
		if err := Cleanup(t.Context(), kube, opts, slog.New(slog.DiscardHandler)); err != nil {
			t.Error(err)
		}
		if len(written) != 3 || written[0] != "a" || written[2] != "d" {
			t.Errorf("written: %q, want a, c and d", written)
		}
	})
}
