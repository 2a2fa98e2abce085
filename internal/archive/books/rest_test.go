package books_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
)

// TestOvercharged checks rules that charge more energy than the boards used. They must cause an error with the hour and
// the namespace, even if the sums over the whole period balance. Correct rules must cause no error.
func TestOvercharged(t *testing.T) {
	second := begin.Add(time.Hour)
	result := func(hour int) time.Time { return begin.Add(time.Duration(hour)*time.Hour + 100*time.Minute) } // time of a rule's result
	of := books.Query{From: begin, Until: begin.Add(fleetHours * time.Hour)}
	for name, tt := range map[string]struct {
		change func(*foldtest.Store)
		hour   time.Time // zero if no error is expected
	}{
		"right":      {nil, time.Time{}},
		"five times": {func(s *foldtest.Store) { s.Scale("gpuledger:namespace_energy_joules:increase1h", 5, begin) }, begin},
		"the second hour": {func(s *foldtest.Store) { // over both hours, the boards used more than is charged
			s.Add(result(0), 1e9, "gpuledger:fleet_energy_joules:increase1h", "cluster", "east")
			s.Add(result(1), 1e7, "gpuledger:namespace_energy_joules:increase1h", "cluster", "east", "namespace", "mine")
		}, second},
		"users": {func(s *foldtest.Store) { s.Scale("gpuledger:user_energy_joules:increase1h", 1e3, result(1)) }, second},
	} {
		url, _ := fleet(t, tt.change)
		for _, by := range [][]string{{"namespace"}, {"cluster", "hour"}, {"username"}} {
			of.By = by
			_, err := openStore(t, url, "rules").Statement(t.Context(), of)
			var overcharged *books.OverchargedError
			switch {
			case tt.hour.IsZero() && err != nil:
				t.Errorf("%s, by %v: %v", name, by, err)
			case tt.hour.IsZero():
			case !errors.As(err, &overcharged) || !overcharged.Hour.Equal(tt.hour):
				t.Errorf("%s, by %v: error %v, want one of %v", name, by, err, tt.hour)
			case name == "five times" && !strings.Contains(err.Error(), "namespace ml"):
				t.Errorf("%s, by %v: error %v has no namespace", name, by, err)
			}
		}
	}
}

// TestOverchargedBoard checks a statement by board from rules. It must fail if a board is charged more energy than it
// used, even if the fleet as a whole is not.
func TestOverchargedBoard(t *testing.T) {
	of := books.Query{From: begin, Until: begin.Add(fleetHours * time.Hour)}
	url, _ := fleet(t, func(s *foldtest.Store) {
		s.Add(begin.Add(100*time.Minute), -7, "gpuledger:board_unattributed_energy_joules:increase1h", "cluster", "east", "UUID", "GPU-bad", "serial", "S-bad")
	})
	for by, fails := range map[string]bool{"namespace": false, "cluster": false, "serial": true, "pod": true, "unit": true} {
		of.By = []string{by}
		_, err := openStore(t, url, "rules").Statement(t.Context(), of)
		var overcharged *books.OverchargedError
		if errors.As(err, &overcharged) != fails || fails && !strings.Contains(err.Error(), "hour 2026-10-01T00:00:00Z of east: the rules charge board S-bad") {
			t.Errorf("by %s: error %v", by, err)
		}
	}
}
