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

// TestThrottled checks the throttled energy and time of a pod and a unit. The series begin when the GPU is first
// throttled, and restart with the owner's other counters. A cause without a column must be ignored.
func TestThrottled(t *testing.T) {
	s := history{foldtest.NewStore()}
	owners := map[string][]string{
		"gpuledger_allocation_":      {"node", "a", "UUID", "GPU-1", "namespace", "ml", "pod", "p", "pod_uid", "u"},
		"gpuledger_unit_allocation_": {"node", "a", "UUID", "GPU-1", "manager", "slurm", "unit", "4711"},
	}
	for minute := 50.0; minute <= 120; minute += 10 {
		s.board(minute, 1000*minute, -600, "a")
		for prefix, labels := range owners {
			began, energy := -500.0, minute
			if minute >= 110 { // a restart of the owner's counters
				began, energy = 105, minute-105
			}
			add := func(name string, value float64, more ...string) {
				s.Add(at(minute), value, prefix+name, slices.Concat(labels, more)...)
			}
			add("created_timestamp_seconds", seconds(at(began)))
			add("energy_joules_total", energy)
			add("seconds_total", energy)
			switch {
			case minute >= 110:
				add("throttled_joules_total", 0.25, "throttle", "thermal")
				add("throttled_seconds_total", 0.5, "throttle", "thermal")
			case minute >= 80:
				add("throttled_joules_total", minute/8, "throttle", "thermal")
				add("throttled_seconds_total", minute/16, "throttle", "thermal")
				add("throttled_joules_total", 2, "throttle", "power_brake")
				add("throttled_seconds_total", 3, "throttle", "power_brake")
				add("throttled_joules_total", 40, "throttle", "an_icy_wind")
			}
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

// TestThrottledForgotten checks that throttled amounts count as restarted if they begin at 0 with the same created
// timestamp. A version without throttled amounts does not keep them in the state file, so the next version continues
// only the other counters. For these, a decrease must still be implausible.
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
			labels := []string{"node", "a", "UUID", "GPU-1", "namespace", "ml", "pod", "p", "pod_uid", "u"}
			for minute := 50.0; minute <= 120; minute += 10 {
				s.board(minute, 1000*minute, -600, "a")
				add := func(name string, value float64, more ...string) {
					s.Add(at(minute), value, "gpuledger_allocation_"+name, slices.Concat(labels, more)...)
				}
				add("created_timestamp_seconds", seconds(at(-500)))
				energy, throttled := minute, minute/10
				switch {
				case minute >= 110:
					energy, throttled = tt.energy-120+minute, minute/10-10
				case minute >= 90: // the earlier version was scraped then
					throttled = 0
				}
				add("energy_joules_total", energy)
				if throttled > 0 {
					add("throttled_joules_total", throttled, "throttle", "thermal")
					add("throttled_seconds_total", throttled, "throttle", "thermal")
				}
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
