//go:build e2e

package dashboards_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/test/prometheus"
)

// A node is rebooted, and a GPU is lost at 4:21. A board with two GPUs moves to another node at 3:17, half an hour
// after it left the first node. Another board moves at 0:50 and moves back at 4:47.
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
	place("c", "GPU-5", "S5", 0, 20*time.Minute)
	place("a", "GPU-5", "S5", 50*time.Minute, 4*time.Hour+27*time.Minute)
	place("c", "GPU-5", "S5", 4*time.Hour+47*time.Minute, end)
	h.counter(`gpuledger_board_losses_total{node="c",UUID="GPU-4",serial="S4"}`, 0, 4*time.Hour+20*time.Minute, 0, 0)
	h.counter(`gpuledger_board_losses_total{node="c",UUID="GPU-4",serial="S4"}`, 4*time.Hour+21*time.Minute, end, 1, 0)
	return h.bytes()
}

// TestAnnotations checks that each event is annotated exactly once, for three steps of the query and three start times
// of each step. Dashboards about selected boards must also mark the return of a board to a node within a day.
func TestAnnotations(t *testing.T) {
	rules, err := filepath.Abs("../../../dashboards/rules/placement.yaml")
	check(t, err)
	address := backfilled(t, "annotations", end, travels(), rules)
	events := map[string]time.Duration{"S1 b": 3*time.Hour + 17*time.Minute, "S4 c": 4*time.Hour + 21*time.Minute, "S5 c": 4*time.Hour + 47*time.Minute}
	for file, back := range map[string][]string{"fleet": nil, "gpu-life": {"S5 c"}} {
		list := read(t, "../../../dashboards/"+file+".json").Annotations.List
		if len(list) != 2 {
			t.Fatalf("%s: annotations %v", file, list)
		}
		want := map[string][]string{"Moved boards": append([]string{"S1 b"}, back...), "Lost GPUs": {"S4 c"}}
		for _, step := range []time.Duration{time.Minute, 7 * time.Minute, time.Hour} {
			for _, phase := range []time.Duration{0, 19 * time.Second, step / 2} {
				got := make(map[string][]string)
				for at := 2*time.Hour + phase; at < end; at += step {
					for _, a := range list {
						expr := filled(a.Expr, file, map[string]string{"__interval": fmt.Sprintf("%ds", int(step.Seconds())), "serial": ".*"})
						samples, err := prometheus.Query(t.Context(), address, expr, began.Add(at))
						check(t, err)
						for _, s := range samples {
							board := s.Labels["serial"] + " " + s.Labels["node"]
							if event := events[board]; at < event || at > event+step {
								t.Errorf("%s, %s, step %v, phase %v: %s at %v, want one at %v", file, a.Name, step, phase, board, at, event)
							}
							got[a.Name] = append(got[a.Name], board)
						}
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s, step %v, phase %v: annotations (-want +got):\n%s", file, step, phase, diff)
				}
			}
		}
	}
}
