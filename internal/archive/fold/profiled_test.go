package fold_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
)

// TestProfiled checks the time in which a pod and a unit were profiled, and the activity in this time. The counters
// begin when the pod or unit is first alone on the GPU. They restart with its other counters. Without profiled time,
// the activity must be unknown. In profiled time without activity, the activity must be 0.
func TestProfiled(t *testing.T) {
	ms := func(n int64) *int64 { return &n }
	none := [3]*int64{}
	const end = 120.0
	tests := []struct {
		name string
		// profiled returns the profiled seconds at a minute. A negative number means that the counter is absent.
		profiled func(minute float64) float64
		tensor   float64 // activity per profiled second
		restart  float64 // minute
		want     [3]*int64
	}{
		{"absent", func(float64) float64 { return -1 }, 0.5, end, none},
		{"began before the hour", func(m float64) float64 { return m }, 0.5, end, [3]*int64{ms(60_000), ms(30_000), ms(15_000)}},
		{"began in the hour", func(m float64) float64 { return m - 80 }, 0.5, end, [3]*int64{ms(40_000), ms(20_000), ms(10_000)}},
		{"ended before the hour", func(m float64) float64 { return min(m, 55) }, 0.5, end, none},
		{"no activity", func(m float64) float64 { return m }, 0, end, [3]*int64{ms(60_000), ms(0), ms(0)}},
		// An exporter without profiling drops these counters, but keeps all other counters. The counter grows from 60 s
		// to 80 s. After the restart, it grows from 0 s to 20 s.
		{"an exporter without profiling in between", func(m float64) float64 {
			switch {
			case m <= 80:
				return m
			case m < 100:
				return -1
			}
			return m - 100
		}, 0.5, end, [3]*int64{ms(40_000), ms(20_000), ms(10_000)}},
		// The counter grows from 60 s to 100 s. After the restart, it grows from 0 s to 15 s.
		{"restart", func(m float64) float64 { return m }, 0.5, 105, [3]*int64{ms(55_000), ms(27_500), ms(13_750)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := history{foldtest.NewStore()}
			for minute := 50.0; minute <= end; minute += 10 {
				s.board(minute, 1000*minute, -600, "a")
				began, energy, profiled := -500.0, minute, tt.profiled(minute)
				if minute > tt.restart {
					began, energy, profiled = tt.restart, minute-tt.restart, minute-tt.restart
				}
				counters := map[string]float64{"energy_joules_total": energy, "seconds_total": energy}
				if profiled >= 0 {
					counters["profiled_seconds_total"] = profiled
					counters["tensor_active_seconds_total"], counters["dram_active_seconds_total"] = profiled*tt.tensor, profiled*tt.tensor/2
				}
				s.owners(minute, began, counters)
			}
			h, err := hour(s.Store, 1)
			check(t, err)
			got := make(map[string][3]*int64)
			for _, c := range h.Charges {
				if c.Reason == "" {
					got[c.Pod+c.Unit] = [3]*int64{c.Profiled, c.TensorActive, c.DRAMActive}
				} else if c.Profiled != nil {
					t.Errorf("the reason %s has profiled time", c.Reason)
				}
			}
			if diff := cmp.Diff(map[string][3]*int64{"p": tt.want, "4711": tt.want}, got); diff != "" {
				t.Errorf("profiled, tensor and DRAM in ms (-want +got):\n%s", diff)
			}
		})
	}
}
