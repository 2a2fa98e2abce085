//go:build e2e

package archive_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	archived "github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestUnknownPods checks how databases count the charged pods that no series names. It also checks tables of the
// previous version.
func TestUnknownPods(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			url, db := kind.start(t).create(t, "unknown")
			sink, err := kind.sink(t.Context(), url)
			check(t, err)
			for n := range 3 {
				h := sinktest.Hour(sinktest.Noon.Add(time.Duration(n)*time.Hour), 7)
				h.Charges[0].Pod = "p"
				h.Charges = append(h.Charges, table.Charge{Node: "a", UUID: "GPU-1", Namespace: "ml", Pod: "forged", PodUID: "f", Energy: 5})
				if n > 0 {
					h.UnknownPods = []table.PodID{{Namespace: "ml", Pod: "forged", UID: "f"}}
				}
				check(t, sink.Replace(t.Context(), h))
			}
			check(t, sink.Close())
			if diff := cmp.Diff([]string{"0", "1", "1"}, db.rows(t, "select unknown_pods from hours order by hour")); diff != "" {
				t.Errorf("unknown pods (-want +got):\n%s", diff)
			}
			found := func() []archived.UnknownPod {
				t.Helper()
				source, err := archived.OpenDatabase(t.Context(), url, "")
				check(t, err)
				defer source.Close()
				of := archived.Query{From: sinktest.Noon, Until: sinktest.Noon.Add(3 * time.Hour), Where: map[string][]string{"cluster": {sinktest.Cluster}}, Checks: true}
				st, err := source.Statement(t.Context(), of)
				check(t, err)
				return st.UnknownPods
			}
			want := []archived.UnknownPod{{Cluster: sinktest.Cluster, PodID: table.PodID{Namespace: "ml", Pod: "forged", UID: "f"}, Hours: 2, Energy: 10}}
			if diff := cmp.Diff(want, found()); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
			db.rows(t, "alter table hours drop column unknown_pods")
			if pods := found(); pods != nil {
				t.Errorf("unknown pods in tables of the previous version: %v", pods)
			}
		})
	}
}
