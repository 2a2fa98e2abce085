package workloads

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestLookupForgets: what is remembered does not grow with the namespaces that come and go.
func TestLookupForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLookup(nil, nil, nil, slog.New(slog.DiscardHandler))
		for i := range 1000 {
			ns := fmt.Sprintf("ci-%d", i)
			l.close(scope{schema.GroupKind{Group: "batch", Kind: "Job"}, ns})
			l.remember(reference{kind: "Job", namespace: ns}, answer{why: forbidden})
		}
		time.Sleep(refusedFor)
		l.forget()
		if len(l.closed) != 0 || len(l.known) != 0 {
			t.Errorf("%d refusals and %d answers are remembered", len(l.closed), len(l.known))
		}
	})
}
