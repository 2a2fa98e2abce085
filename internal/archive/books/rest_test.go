package books_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
)

// TestOvercharged checks rules that charge more energy in an hour than the boards used. A statement must fail, even if
// the sums over the whole period balance. The error must name the hour and the namespace. If only a single board is
// overcharged, only statements by board must fail.
func TestOvercharged(t *testing.T) {
	result := func(hour int) time.Time { return begin.Add(time.Duration(hour)*time.Hour + 100*time.Minute) } // the rules are evaluated 40 minutes after the end of the hour
	sums := [][]string{{"namespace"}, {"cluster", "hour"}, {"username"}}
	board := func(s *foldtest.Store) {
		s.Add(result(0), -7, "gpuledger:board_unattributed_energy_joules:increase1h", "cluster", "east", "UUID", "GPU-bad", "serial", "S-bad")
	}
	for name, tt := range map[string]struct {
		change func(*foldtest.Store)
		by     [][]string
		want   []string // parts of the error; nil if no error is expected
	}{
		"right":      {nil, sums, nil},
		"five times": {func(s *foldtest.Store) { s.Scale("gpuledger:namespace_energy_joules:increase1h", 5, begin) }, sums, []string{"hour 2026-10-01T00:00:00Z of east", "namespace ml"}},
		"the second hour": {func(s *foldtest.Store) { // in both hours together, the boards used more energy than was charged
			s.Add(result(0), 1e9, "gpuledger:fleet_energy_joules:increase1h", "cluster", "east")
			s.Add(result(1), 1e7, "gpuledger:namespace_energy_joules:increase1h", "cluster", "east", "namespace", "mine")
		}, sums, []string{"hour 2026-10-01T01:00:00Z of east"}},
		"users":                  {func(s *foldtest.Store) { s.Scale("gpuledger:user_energy_joules:increase1h", 1e3, result(1)) }, sums, []string{"hour 2026-10-01T01:00:00Z of east"}},
		"a board":                {board, [][]string{{"serial"}, {"pod"}, {"unit"}}, []string{"hour 2026-10-01T00:00:00Z of east: the rules charge board S-bad"}},
		"a board, but no boards": {board, [][]string{{"namespace"}, {"cluster"}}, nil},
	} {
		source := openStore(t, fleet(t, tt.change), "rules")
		for _, by := range tt.by {
			_, err := source.Statement(t.Context(), books.Query{From: begin, Until: begin.Add(fleetHours * time.Hour), By: by})
			var overcharged *books.OverchargedError
			if errors.As(err, &overcharged) != (tt.want != nil) || tt.want == nil && err != nil {
				t.Errorf("%s, by %v: error %v, want one with %q", name, by, err, tt.want)
			}
			for _, want := range tt.want {
				if !strings.Contains(fmt.Sprint(err), want) {
					t.Errorf("%s, by %v: error %v, want one with %q", name, by, err, want)
				}
			}
		}
	}
}
