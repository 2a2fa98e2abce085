package fold_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestThrottled checks the energy and time of a pod and a unit while the GPU was throttled. The series begin when the
// GPU is first throttled, and restart with the other counters. Causes without a column must be ignored.
func TestThrottled(t *testing.T) {
	s := history{foldtest.NewStore()}
	for minute := 50.0; minute <= 120; minute += 10 {
		s.board(minute, 1000*minute, -600, "a")
		switch { // the owners' counters restart at 105
		case minute >= 110:
			s.owners(minute, 105, map[string]float64{
				"energy_joules_total": minute - 105, "seconds_total": minute - 105, "throttled_joules_total thermal": 0.25, "throttled_seconds_total thermal": 0.5,
			})
		case minute >= 80:
			s.owners(minute, -500, map[string]float64{
				"energy_joules_total": minute, "seconds_total": minute, "throttled_joules_total thermal": minute / 8, "throttled_seconds_total thermal": minute / 16,
				"throttled_joules_total power_brake": 2, "throttled_seconds_total power_brake": 3, "throttled_joules_total an_icy_wind": 40,
			})
		default:
			s.owners(minute, -500, map[string]float64{"energy_joules_total": minute, "seconds_total": minute})
		}
	}
	h, err := hour(s.Store, 1)
	check(t, err)
	type amounts struct{ Energy, ThermalEnergy, Thermal, PowerBrakeEnergy, PowerBrake int64 }
	got := make(map[string]amounts)
	for _, c := range h.Charges {
		if c.Reason == "" {
			got[c.Pod+c.Unit] = amounts{c.Energy, c.ThermalEnergy, c.Thermal, c.PowerBrakeEnergy, c.PowerBrake}
		}
	}
	// Until 01:40, the energy rises from 60 to 100 J. After the restart, it rises to 15 J until 02:00.
	one := amounts{Energy: 55_000, ThermalEnergy: 12_500 + 250, Thermal: 6_250 + 500, PowerBrakeEnergy: 2000, PowerBrake: 3000}
	if diff := cmp.Diff(map[string]amounts{"p": one, "4711": one}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestThrottledForgotten checks the counters after a downgrade and an upgrade. The earlier version does not keep the
// throttled counters in the state file. After the upgrade, they begin at 0 with the same created timestamp. If another
// counter falls, this must still be implausible.
func TestThrottledForgotten(t *testing.T) {
	tests := map[string]struct {
		energy float64 // energy at the end of the hour
		want   error
	}{
		"continued energy": {energy: 120},
		"energy that fell": {energy: 20, want: fold.ErrImplausible},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := history{foldtest.NewStore()}
			for minute := 50.0; minute <= 120; minute += 10 {
				s.board(minute, 1000*minute, -600, "a")
				energy, throttled := minute, minute/10
				switch {
				case minute >= 110:
					energy, throttled = tt.energy-120+minute, minute/10-10
				case minute >= 90: // samples of the earlier version
					throttled = 0
				}
				counters := map[string]float64{"energy_joules_total": energy}
				if throttled > 0 {
					counters["throttled_joules_total thermal"], counters["throttled_seconds_total thermal"] = throttled, throttled
				}
				s.owners(minute, -500, counters)
			}
			h, err := hour(s.Store, 1)
			if !errors.Is(err, tt.want) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if err != nil {
				return
			}
			// The counter grows from 6 s to 8 s and, after the restart, from 0 s to 2 s.
			want := table.Charge{Energy: 60_000, ThermalEnergy: 4000, Thermal: 4000}
			i := slices.IndexFunc(h.Charges, func(c table.Charge) bool { return c.Pod == "p" })
			if c := h.Charges[i]; c.Energy != want.Energy || c.ThermalEnergy != want.ThermalEnergy || c.Thermal != want.Thermal {
				t.Errorf("charge %+v, want %+v", c, want)
			}
		})
	}
}
