//go:build e2e

package dashboards_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/test/prometheus"
)

// travels returns the history of a board of two GPUs that is moved from one node to another at 3:17, half an hour after it left,
// of a node that is rebooted meanwhile, and of a GPU that is lost at 4:21.
func travels() []byte {
	var h history
	place := func(node, gpu, serial string, from, to time.Duration) {
		h.counter(fmt.Sprintf(`gpuledger_placement_info{node="%s",UUID="%s",serial="%s",model="H100",chassis_serial="C",chassis_slot="1"}`, node, gpu, serial), from, to, 1, 0)
	}
	for _, gpu := range []string{"GPU-1", "GPU-2"} {
		place("a", gpu, "S1", 0, 2*time.Hour+47*time.Minute)
		place("b", gpu, "S1", 3*time.Hour+17*time.Minute, end)
	}
	place("b", "GPU-3", "S3", 0, 2*time.Hour+40*time.Minute)
	place("b", "GPU-3", "S3", 3*time.Hour+17*time.Minute, end)
	place("c", "GPU-4", "S4", 0, 4*time.Hour+20*time.Minute)
	h.counter(`gpuledger_board_losses_total{node="c",UUID="GPU-4",serial="S4"}`, 0, 4*time.Hour+20*time.Minute, 0, 0)
	h.counter(`gpuledger_board_losses_total{node="c",UUID="GPU-4",serial="S4"}`, 4*time.Hour+21*time.Minute, end, 1, 0)
	return h.bytes()
}

// TestAnnotations checks that each event is annotated once, with every step and at every phase of the steps.
func TestAnnotations(t *testing.T) {
	rules, err := filepath.Abs("../../../dashboards/rules/placement.yaml")
	check(t, err)
	address := backfilled(t, "annotations", travels(), rules)
	fleet := read(t, "../../../dashboards/fleet.json")
	if len(fleet.Annotations.List) != 2 {
		t.Fatalf("annotations %v", fleet.Annotations.List)
	}
	for _, step := range []time.Duration{time.Minute, 7 * time.Minute, time.Hour} {
		for _, phase := range []time.Duration{0, 19 * time.Second, step / 2} {
			got := make(map[string][]string)
			for at := 2*time.Hour + phase; at < end; at += step {
				for _, a := range fleet.Annotations.List {
					expr := filled(a.Expr, "fleet", map[string]string{"__interval": fmt.Sprintf("%ds", int(step.Seconds()))})
					samples, err := prometheus.Query(t.Context(), address, expr, began.Add(at))
					check(t, err)
					for _, s := range samples {
						event := map[string]time.Duration{"Moved boards": 3*time.Hour + 17*time.Minute, "Lost GPUs": 4*time.Hour + 21*time.Minute}[a.Name]
						if at < event || at > event+step {
							t.Errorf("%s, step %v, phase %v: an event at %v, want one at %v", a.Name, step, phase, at, event)
						}
						got[a.Name] = append(got[a.Name], strings.Join([]string{s.Labels["serial"], s.Labels["node"]}, " "))
					}
				}
			}
			want := map[string][]string{"Moved boards": {"S1 b"}, "Lost GPUs": {"S4 c"}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("step %v, phase %v: annotations (-want +got):\n%s", step, phase, diff)
			}
		}
	}
}
